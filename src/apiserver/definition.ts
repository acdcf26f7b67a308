/**
 * What people are told about a shape when they ask (`kubectl explain`): its name in API documents and a text for the whole
 * and for its fields. Kept apart from the shapes, which are for decoding and read better without prose.
 */
import type { Shape } from '../kube/schema/schema.ts';
import { containerDefinitions } from './definitions/container.ts';
import { metaDefinitions } from './definitions/meta.ts';
import { nodeDefinitions } from './definitions/node.ts';
import { objectDefinitions } from './definitions/objects.ts';
import { podDefinitions } from './definitions/pod.ts';
import { reviewDefinitions } from './definitions/reviews.ts';
import { storageDefinitions } from './definitions/storage.ts';
import { volumeDefinitions } from './definitions/volume.ts';

export interface Definition {
  readonly shape: Shape<unknown>;
  /** Where other shapes refer to it. Kinds are named after their group, version and kind instead. */
  readonly name?: string;
  readonly text: string;
  readonly fields: Readonly<Record<string, string>>;
  /** Fields that decoding always fills in and that a user may nevertheless leave out. */
  readonly optional?: readonly string[];
}

export const definitions: readonly Definition[] = [
  ...metaDefinitions,
  ...podDefinitions,
  ...containerDefinitions,
  ...volumeDefinitions,
  ...nodeDefinitions,
  ...objectDefinitions,
  ...storageDefinitions,
  ...reviewDefinitions,
];
