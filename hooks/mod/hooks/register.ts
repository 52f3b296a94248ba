// Leo's mod: it takes prompts from Leo, tells Leo of turns, and holds permission prompts and questions
// out to it. It decides nothing: what it returns is what a person answered in an app, or nothing.
//
// It listens to `classic.*` events, which carry what Claude tells its hooks. It does not listen to
// `tool.run` and `tool.call`: Claude keeps every tool that a mod listens to from moving to the background
// and from showing its output while it runs.
import type { EngineInterface, Register } from 'claude-code'
import { deliver, inFlight, recall, run, started } from './commands'
import { find, freshKey, hello, isRefused, isUp, poll, post, report } from './line'

/** Below this much of its time a hook hands over, before Claude ends it. */
const HAND_OVER_MS = 2000

/** Pause before Leo is asked again about a prompt. */
const ASK_AGAIN_MS = 250

let promptId: string | undefined
let turn: { id: string; promptId: string | undefined } | undefined

async function pump($: EngineInterface) {
  await recall($)
  if (!(await find($)) || !(await hello($))) return
  while (!isRefused()) {
    const command = await poll($, inFlight())
    if (command) void run($, command)
  }
}

export const register: Register = on => {
  on('session.start', ($, e, next) => {
    void pump($)
    return next(e)
  })

  on('classic.UserPromptSubmit', ($, e, next) => {
    promptId = e.prompt_id
    void started($, e.prompt, e.prompt_id)
    report($, { hook: e })
    return next(e)
  })
  on('classic.Stop', ($, e, next) => {
    report($, { hook: e })
    return next(e)
  })
  on('classic.StopFailure', ($, e, next) => {
    report($, { hook: e })
    return next(e)
  })

  on('turn.start', ($, e, next) => {
    if (e.agentId === undefined) turn = { id: e.turnId, promptId }
    return next(e)
  })
  on('turn.complete', ($, e, next) => {
    // The only place where an interrupt shows.
    if (e.agentId === undefined && e.isAborted && turn?.id === e.turnId) {
      report($, { hook: { hook_event_name: 'TurnAborted', prompt_id: turn.promptId } })
    }
    return next(e)
  })
  on('session.end', ($, e, next) => {
    report($, { hook: { hook_event_name: 'SessionEnd', session_id: e.sessionId, reason: e.reason } })
    return next(e)
  })

  // A message that Leo gave to the peer inbox comes in again as the person's. Whether it is Leo's only
  // Leo can say: any program of this user can write to the inbox.
  on('session.receive', { origin: { kind: 'peer' } }, async ($, e, next) => {
    if (!isUp() || e.agentId !== undefined) return next(e)
    try {
      const answer = await post($, 'receive', { text: e.text })
      if (answer.status !== 200) return next(e)
      const { id } = JSON.parse(answer.text)
      void deliver($, id, e.text)
      return { consumed: 'a message from Leo, entered as the person\'s prompt' }
    } catch {
      return next(e)
    }
  })

  on('classic.PermissionRequest', async ($, e, next) => {
    const key = freshKey()
    let asked = false
    next.signal.addEventListener('abort', () => {
      if (asked) void post($, 'permission/gone', { key }).catch(() => undefined)
    })
    while (isUp() && !next.signal.aborted && next.budget.remainingMs > HAND_OVER_MS) {
      try {
        asked = true
        const answer = await post($, 'permission', { key, at_ms: Date.now(), payload: e })
        // Without `next` no other hook of Leo's asks as well, and the dialog goes on.
        if (answer.status === 200) return JSON.parse(answer.text)
      } catch {
        // Leo is back soon, and keeps the card meanwhile.
      }
      if (!next.signal.aborted) await $.clock.sleep(ASK_AGAIN_MS)
    }
    return next.signal.aborted ? {} : next(e)
  })
}
