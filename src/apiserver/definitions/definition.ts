/**
 * What people are told about a shape when they ask (`kubectl explain`): its name in API documents and a text for the whole
 * and for its fields. Kept apart from the shapes, which are for decoding and read better without prose.
 */
import type { Shape } from '../../kube/schema/schema.ts';
import { containerDefinitions } from './container.ts';
import { metaDefinitions } from './meta.ts';
import { nodeDefinitions } from './node.ts';
import { objectDefinitions } from './objects.ts';
import { podDefinitions } from './pod.ts';
import { reviewDefinitions } from './reviews.ts';
import { storageDefinitions } from './storage.ts';
import { volumeDefinitions } from './volume.ts';

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
