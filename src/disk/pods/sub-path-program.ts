/** A program of its own: prepares one sub path, which it reads as JSON, and ends. See foreign-sub-paths.ts. */
import { stdin, stdout } from 'node:process';
import { json } from 'node:stream/consumers';
import type { ForeignAnswer } from '../devices/foreign-paths.ts';
import { DiskError } from '../mounts/disk-error.ts';
import { systemMounts } from '../mounts/mounts.ts';
import { type SubPathRequest, prepareSubPath } from './sub-paths.ts';

function answerTo(request: SubPathRequest): ForeignAnswer {
  try {
    return { result: prepareSubPath(request, systemMounts()) };
  } catch (thrown) {
    if (!(thrown instanceof DiskError)) throw thrown;
    return { reason: thrown.reason, message: thrown.message };
  }
}

// As a stream: Node makes a pipe at 0 non-blocking, so a plain read fails with EAGAIN when the request is late.
stdout.write(JSON.stringify(answerTo((await json(stdin)) as SubPathRequest)));
