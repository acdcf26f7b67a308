/** A program of its own: gives a volume to a group, as it reads in JSON, and ends. See foreign-groups.ts. */
import { readFileSync } from 'node:fs';
import { stdout } from 'node:process';
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

stdout.write(JSON.stringify(await answerTo(JSON.parse(readFileSync(0, 'utf8')) as GroupRequest)));
