/** All that pods need of the object managers; which strategy answers is not their business. */
export interface ObjectReader<T> {
  /** Answers undefined for an object that does not exist, and rejects when it cannot tell. */
  get(namespace: string, name: string, signal: AbortSignal): Promise<T | undefined>;
}
