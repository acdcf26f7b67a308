/** CSI drivers that register with the node of `mountlet up`, as kubectl shows them. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { ScriptedDriver } from '../src/testing/servers/scripted-driver.ts';
import { eventually } from './kubectl-program.ts';
import { UpMachine, withNode } from './up-program.ts';

const machine = new UpMachine();
before(async () => void (withNode.skip === false && (await machine.start('--node-name', 'here'))));
after(() => machine.end());

test('kubectl shows the drivers of a node, as long as their sockets are there', withNode, async (t) => {
  const { kubectl } = machine;
  const registry = join(machine.directory, 'state', 'node', 'plugins_registry');
  const drivers = (): Promise<string> => kubectl.ok('get csinode here -o jsonpath={.spec.drivers[*].name}');
  await eventually(async () => assert.match(await kubectl.ok('get csinodes'), /^NAME +DRIVERS +AGE\nhere +0 /));
  await kubectl.ok('wait node/here --for=condition=Ready --timeout=100s');
  assert.ok(existsSync(registry));

  const driver = await new ScriptedDriver(registry, { socketName: 'new/driver-reg.sock' }).start();
  t.after(() => driver.stop());
  await eventually(async () => assert.equal(await drivers(), 'driver.example.com'));
  assert.match(await kubectl.ok('get csinodes'), /\nhere +1 /);
  assert.match(machine.up.output(), /CSI driver driver\.example\.com registered at .+driver-reg\.sock/);
  driver.stop();
  await eventually(async () => assert.equal(await drivers(), ''));
});
