import { test } from 'node:test';
import { checkRandomKills } from '../testing/worlds/killed-machine.ts';

test('however often its node is killed, a machine ends up with what is wanted, and no data is lost', () =>
  checkRandomKills(600));
