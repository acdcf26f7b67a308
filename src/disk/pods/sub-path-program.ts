/** A program of its own: prepares one sub path, which it reads as JSON, and ends. See foreign-sub-paths.ts. */
import { readFileSync } from 'node:fs';
import { stdout } from 'node:process';
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

stdout.write(JSON.stringify(answerTo(JSON.parse(readFileSync(0, 'utf8')) as SubPathRequest)));
