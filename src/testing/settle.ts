/** Lets everything that waits for no clock come to rest: a few turns of the event loop, in which promises resolve. */
export async function settle(turns = 5): Promise<void> {
  for (let turn = 0; turn < turns; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}
