/** Containers of containerd that read their configuration without pause. A hundred thousand times: the long test. */
import './with-containerd.ts';
import { test } from 'node:test';
import { checkContainerReaders } from './fixtures/container-readers.ts';
import { needsExchange } from './fixtures/followed-volume.ts';
import { withNode } from './up-program.ts';

test('10,000 reads of volumes and subPaths find no gap', { skip: withNode.skip || needsExchange() }, (t) =>
  checkContainerReaders(t, 10_000),
);
