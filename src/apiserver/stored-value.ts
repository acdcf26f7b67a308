/** The text that the store keeps of an object, which is what clients get, and the object that it stands for. */
import type { KubeObject } from './resource.ts';

/** Smaller ones are parsed faster than they are found. */
const largeLength = 64 * 1024;
const rememberedMax = 4;
/** The newest last. A large object is read by several parts of the server at each write, and takes 10 ms for each MB to parse. */
const remembered: { readonly value: string; readonly object: KubeObject }[] = [];

/** The same object for the same large text: nothing may change it. */
export function parseStored(value: string): KubeObject {
  if (value.length < largeLength) return JSON.parse(value) as KubeObject;
  const known = remembered.find((one) => one.value === value);
  if (known !== undefined) return known.object;
  return remember(value, JSON.parse(value) as KubeObject);
}

export function storedText(object: KubeObject, revision: number): string {
  const stored = { ...object, metadata: { ...object.metadata, resourceVersion: String(revision) } };
  const value = JSON.stringify(stored);
  if (value.length >= largeLength) remember(value, stored);
  return value;
}

function remember(value: string, object: KubeObject): KubeObject {
  remembered.push({ value, object });
  if (remembered.length > rememberedMax) remembered.shift();
  return object;
}
