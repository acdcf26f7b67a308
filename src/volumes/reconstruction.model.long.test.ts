import { test } from 'node:test';
import { checkRandomKills } from '../testing/worlds/killed-machine.ts';

test('however often its node is killed, a machine has in the end what is wanted, and nobody lost anything', () =>
  checkRandomKills(600));
