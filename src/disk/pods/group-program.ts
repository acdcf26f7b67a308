/** A program of its own: gives a volume to a group, as it reads in JSON, and ends. See foreign-groups.ts. */
import { stdin, stdout } from 'node:process';
import { json } from 'node:stream/consumers';
import { messageOf } from '../../base/errors.ts';
import { Turns } from '../../base/turns.ts';
import type { ForeignAnswer } from '../devices/foreign-paths.ts';
import { applyGroup } from '../paths/ownership.ts';
import type { GroupRequest } from './foreign-groups.ts';

async function answerTo({ directory, change }: GroupRequest): Promise<ForeignAnswer> {
  try {
    await applyGroup(new Turns(Date.now), directory, change);
    return { result: '' };
  } catch (thrown) {
    return { reason: 'UnreadableFile', message: messageOf(thrown) };
  }
}

// As a stream: Node makes a pipe at 0 non-blocking, so a plain read fails with EAGAIN when the request is late.
stdout.write(JSON.stringify(await answerTo((await json(stdin)) as GroupRequest)));
