/** A hundred thousand reads of its configuration by a container of containerd. */
import './with-containerd.ts';
import { test } from 'node:test';
import { checkContainerReaders } from './fixtures/container-readers.ts';
import { needsExchange } from './fixtures/followed-volume.ts';
import { withNode } from './up-program.ts';

test('100,000 reads of volumes and subPaths find no gap', { skip: withNode.skip || needsExchange() }, (t) =>
  checkContainerReaders(t, 100_000),
);
