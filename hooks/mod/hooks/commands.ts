// Leo's commands. A prompt is submitted once under its id, whatever is sent again: the ids are kept with
// the session, over a reload of this module too.
import type { EngineInterface } from 'claude-code'
import type { LeoDelivery as Delivery } from '../types/leo'
import { instance, report } from './line'

/** Ids that are remembered. Leo has one in flight and asks again only for that one. */
const MAX_REMEMBERED = 100

const busy = new Set<string>()
let deliveries: Record<string, Delivery> = {}

/** Takes over what an earlier load of this module knew. What that one had submitted may start yet: its
 * end is seen here, or Leo finds out. */
export async function recall($: EngineInterface) {
  const { value } = await $.state.get({ plugin: 'leo', key: 'deliveries' })
  deliveries = { ...(value ?? {}), ...deliveries }
}

/** The ids that are being worked on. */
export const inFlight = () => [...busy]

async function keep($: EngineInterface, id: string, delivery: Delivery) {
  delete deliveries[id]
  deliveries[id] = delivery
  for (const old of Object.keys(deliveries).slice(0, -MAX_REMEMBERED)) delete deliveries[old]
  await $.state.set({ plugin: 'leo', key: 'deliveries' }, deliveries)
}

function acknowledge($: EngineInterface, id: string, { phase, promptId, why }: Delivery) {
  report($, { ack: { id, outcome: phase, prompt_id: promptId, why } })
}

async function settle($: EngineInterface, id: string, end: Partial<Delivery>) {
  const delivery = deliveries[id]
  if (!delivery || delivery.phase !== 'submitted') return
  const ended = { ...delivery, ...end }
  acknowledge($, id, ended)
  await keep($, id, ended)
}

/** A prompt reached the session: the one of ours that has this text has started. */
export async function started($: EngineInterface, text: string, promptId: string | undefined) {
  for (const [id, delivery] of Object.entries(deliveries)) {
    if (delivery.phase !== 'submitted' || delivery.text !== text) continue
    deliveries[id] = { ...delivery, promptId }
    // What another load submitted has no promise here that would tell.
    if (delivery.by !== instance) await settle($, id, { phase: 'started' })
    return
  }
}

/** Submits a prompt as the person's own; it waits in the session for a running turn or dialog. */
export async function deliver($: EngineInterface, id: string, text: string) {
  const before = deliveries[id]
  if (before && before.phase !== 'submitted') return acknowledge($, id, before)
  if (before) {
    if (before.by !== instance) report($, { ack: { id, outcome: 'unsure' } })
    return
  }
  await keep($, id, { by: instance, text, phase: 'submitted' })
  try {
    const entered = await $.prompt.submit({ text, asUser: true })
    if (entered.drop !== undefined) await settle($, id, { phase: 'refused', why: entered.drop })
    else await settle($, id, { phase: 'started' })
  } catch (error) {
    await settle($, id, { phase: 'refused', why: String(error) })
  }
}

/** Clears or compacts the conversation. Done or refused it is acknowledged; whether it was done Leo sees at
 * the session that begins. What another load began is left to it. */
async function change($: EngineInterface, id: string, op: string, instructions?: string) {
  const before = deliveries[id]
  if (before) {
    if (before.phase !== 'submitted') acknowledge($, id, before)
    return
  }
  await keep($, id, { by: instance, text: '', phase: 'submitted' })
  try {
    if (op === 'clear') {
      await $.command.run({ command: 'clear' })
    } else if (op === 'compact') {
      const { skip } = await $.session.compact({ instructions })
      if (skip !== undefined) return await settle($, id, { phase: 'refused', why: skip })
    } else {
      throw new Error(`this mod knows no ${op}`)
    }
    await settle($, id, { phase: 'started' })
  } catch (error) {
    await settle($, id, { phase: 'refused', why: reason(error) })
  }
}

/** Claude's own words out of what it threw: the names of this mod and of the call stand before them. */
const reason = (error: unknown) => String(error).replace(/^.*\$\.session\.compact: /s, '')

/** Carries out a command. */
export async function run($: EngineInterface, command: Record<string, unknown>) {
  const { id, op, text, instructions } = command
  if (typeof id !== 'string' || typeof op !== 'string' || busy.has(id)) return
  busy.add(id)
  try {
    if (op === 'deliver') await deliver($, id, typeof text === 'string' ? text : '')
    else await change($, id, op, typeof instructions === 'string' ? instructions : undefined)
  } finally {
    busy.delete(id)
  }
}
