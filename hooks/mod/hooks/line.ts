// The line to Leo: HTTP over its unix socket, with the token of this launch. What is reported here keeps
// its order and is sent until Leo has taken it; the session never waits for that.
import type { EngineInterface } from 'claude-code'

/** Pause after a request that failed, in milliseconds: Leo restarts its workers within a second. */
const AGAIN_MS = 200

/** Reports that may wait. Beyond it new ones are left out; Leo also hears of turns from hooks. */
const MAX_WAITING = 1000

/** Tells this load of the module from others in the same session. */
export const instance = `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`

let socketPath = ''
let token = ''
let launch = ''
let connected = false
let refused = false
let sending = false
let counter = 0
const waiting: Record<string, unknown>[] = []

/** Whether Leo has greeted this module. */
export const isUp = () => connected && !refused

/** Whether Leo has refused this launch for good. */
export const isRefused = () => refused

/** A key that no other call has. */
export const freshKey = () => `${instance}.${++counter}`

/** Reads what Leo's launch has left in the environment; false when Leo did not start this session. */
export async function find($: EngineInterface): Promise<boolean> {
  const home = await $.env.get('LEO_HOME')
  token = (await $.env.get('LEO_API_TOKEN')) ?? ''
  launch = (await $.env.get('LEO_LAUNCH')) ?? ''
  socketPath = `${home}/run/bridge.sock`
  return home !== undefined && token !== '' && launch !== ''
}

/** One request. A launch that is over is refused for good, and then nothing is sent any more. */
export async function post($: EngineInterface, path: string, body: Record<string, unknown>) {
  const answer = await $.http.fetch(`http://leo/v1/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
    body: JSON.stringify({ ...body, launch, instance }),
    socketPath,
  })
  if (answer.status === 410) refused = true
  return answer
}

/** Greets Leo until it answers; false when it refuses this launch. */
export async function hello($: EngineInterface): Promise<boolean> {
  const { version } = await $.session.version()
  while (!refused) {
    try {
      const answer = await post($, 'hello', { protocol: 1, claude: version, session_id: await $.session.id() })
      if (answer.status === 200) {
        connected = true
        return true
      }
    } catch {
      // Leo is not there at the moment.
    }
    if (!refused) await $.clock.sleep(AGAIN_MS)
  }
  return false
}

/** Waits for the next command; none when there is none yet. */
export async function poll($: EngineInterface, have: string[]): Promise<Record<string, unknown> | undefined> {
  try {
    const answer = await post($, 'poll', { have })
    if (answer.status === 200) return JSON.parse(answer.text)
    if (answer.status === 204) return undefined
    if (answer.status === 409) {
      await hello($)
      return undefined
    }
  } catch {
    // The connection broke; Leo is back soon.
  }
  if (!refused) await $.clock.sleep(AGAIN_MS)
  return undefined
}

/** Reports something, behind what was reported before. */
export function report($: EngineInterface, event: Record<string, unknown>) {
  if (refused || waiting.length >= MAX_WAITING) return
  waiting.push({ key: freshKey(), at_ms: Date.now(), ...event })
  if (!sending) void send($)
}

async function send($: EngineInterface) {
  sending = true
  while (waiting.length > 0 && !refused) {
    const [first] = waiting
    try {
      const answer = await post($, 'report', { ...first })
      // What Leo cannot read it could not read later either.
      if (answer.ok || answer.status === 400 || answer.status === 413) {
        waiting.shift()
        continue
      }
    } catch {
      // Leo is back soon.
    }
    if (!refused) await $.clock.sleep(AGAIN_MS)
  }
  sending = false
}
