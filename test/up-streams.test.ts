/** Streams of containers under `mountlet up`, at their edges: the last line, the end of an input, a container that has ended, long commands. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { eventually } from './kubectl-program.ts';
import { pod } from './manifests.ts';
import { testedRuntime } from './tested-runtime.ts';
import { UpMachine, withNode } from './up-program.ts';

const machine = new UpMachine();
before(async () => void (withNode.skip === false && (await machine.start())));
after(() => machine.end());

describe('streams', { concurrency: 3 }, () => {
  test('a last line without a newline comes out of the log without one', withNode, async () => {
    const { kubectl } = machine;
    await kubectl.apply(pod('ends', { script: 'echo one; printf two' }, { restartPolicy: 'Never' }));
    await kubectl.until('pod/ends', '{.status.phase}', 'Succeeded');
    assert.equal(await kubectl.ok('logs ends'), 'one\ntwo');
    assert.equal(await kubectl.ok('logs ends --tail=1'), 'two');
  });

  test(
    'attach with an input ends with the input where others may send more, and the container goes on',
    withNode,
    async () => {
      const { kubectl } = machine;
      const script = 'while read -r line; do echo "got $line"; done; sleep 3600';
      await kubectl.apply(pod('asks', { script, stdin: true }));
      await kubectl.running('asks');
      for (const word of ['one', 'two']) await kubectl.ok('attach -i asks', { input: `${word}\n` });
      await eventually(async () => assert.equal(await kubectl.ok('logs asks'), 'got one\ngot two\n'));
    },
  );

  test('attach to a container that has ended says so, without a path of this machine', withNode, async () => {
    const { kubectl } = machine;
    await kubectl.apply(pod('stays', { script: 'exec sleep 3600' }));
    await kubectl.running('stays');
    const image = await kubectl.ok('get pod stays -o jsonpath={.spec.containers[0].image}');
    await kubectl.ok(`debug stays --image=${image} -c brief --target=main -- true`);
    await kubectl.until('pod/stays', '{.status.ephemeralContainerStatuses[0].state.terminated.exitCode}', '0');
    const { code, stderr } = await kubectl.run(['attach', 'stays', '-c', 'brief']);
    assert.equal(code, 1);
    assert.match(stderr, /container not found \("brief"\)|container not running/);
    assert.doesNotMatch(stderr, /\/(var|tmp|run)\//);
    if (testedRuntime().hasImages) return;
    await eventually(async () => assert.match(await kubectl.ok('events --for pod/stays'), /Warning +TargetNotShared/));
  });

  test('a command of a hundred kilobytes is run', withNode, async () => {
    const { kubectl } = machine;
    await kubectl.apply(pod('long', { script: 'exec sleep 3600' }));
    await kubectl.running('long');
    const words = Array.from({ length: 5 }, (_, index) => String(index).repeat(20_000));
    const printed = await kubectl.exec('long', 'sh', '-c', 'echo "$#"; echo "$5"', 'sh', ...words);
    assert.equal(printed, `5\n${words[4]}\n`);
  });
});
