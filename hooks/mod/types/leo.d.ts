/** What became of a prompt of Leo's or a change of the context, by its id. */
export type LeoDelivery = {
  /** Which load of the module submitted it. */
  by: string
  text: string
  phase: 'submitted' | 'started' | 'refused'
  promptId?: string
  why?: string
}
declare module 'claude-code' {
  interface PluginState {
    leo: { deliveries: Record<string, LeoDelivery> }
  }
}
