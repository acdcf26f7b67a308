/** Where objects are in the store: `/registry/<group or "core">/<plural>/<namespace>/<name>`, without namespace for cluster objects. */
import type { Resource } from './resource.ts';

type Kind = Pick<Resource, 'group' | 'plural' | 'namespaced'>;

interface ObjectPlace {
  readonly group: string;
  readonly plural: string;
  readonly namespace: string;
  readonly name: string;
}

export function objectKey(resource: Kind, namespace: string, name: string): string {
  return `${objectPrefix(resource, namespace)}${name}`;
}

/** Of all objects of a kind, or of those in one namespace. Ends with a slash. */
export function objectPrefix({ group, plural, namespaced }: Kind, namespace = ''): string {
  const all = `/registry/${group === '' ? 'core' : group}/${plural}/`;
  return namespaced && namespace !== '' ? `${all}${namespace}/` : all;
}

export function placeOfKey(key: string): ObjectPlace {
  const [, , group = '', plural = '', ...rest] = key.split('/');
  const name = rest.pop() ?? '';
  return { group: group === 'core' ? '' : group, plural, namespace: rest.join('/'), name };
}
