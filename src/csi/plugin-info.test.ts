import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RegisteredDriver } from './drivers.ts';
import { validDriver } from './plugin-info.ts';

const name = 'driver.example.com';
const socket = '/registry/driver-reg.sock';
const none = (): undefined => undefined;
const given = (parts: Partial<Parameters<typeof validDriver>[0]> = {}): Parameters<typeof validDriver>[0] => ({
  name,
  endpoint: '',
  supportedVersions: ['1.0.0'],
  ...parts,
});

function outcome(parts: Parameters<typeof given>[0], existing?: string): string {
  const known = (): RegisteredDriver | undefined =>
    existing === undefined ? undefined : { name, endpoint: '/other.sock', version: existing };
  try {
    const { endpoint, version } = validDriver(given(parts), socket, known);
    return endpoint === socket ? version : endpoint;
  } catch (error) {
    const { message } = error as Error;
    return message.replace(/^validation failed for CSI Driver .*? at endpoint .*?: (kubernetes\.io\/csi: )?/, '');
  }
}

const failed = `ValidatePlugin for CSI driver "${name}" failed.`;
const versions: readonly (readonly [given: string[], outcome: string])[] = [
  [['v1.0.0'], '1.0.0'],
  [['1.2.3'], '1.2.3'],
  [['1.2'], '1.2'],
  [['1.0.0', '1.10.0', '1.9.0'], '1.10.0'],
  [['1.0.0-rc1'], '1.0.0'],
  [['2.0.1', '1.0.0'], '1.0.0'],
  [['0.3.0', '1.0.0'], '1.0.0'],
  [['nonsense', '1.0.0'], '1.0.0'],
  [[], `${failed} Plugin returned an empty list for supported versions`],
  [
    ['0.3.0'],
    `${failed} None of the versions specified ["0.3.0"] are supported. err=highest supported version reported by driver is 0.3.0, must be v1.x`,
  ],
  [
    ['2.0.1'],
    `${failed} None of the versions specified ["2.0.1"] are supported. err=could not find a highest supported version from versions ([2.0.1]) reported by this driver: <nil>`,
  ],
  [
    ['one', '1', '1.01'],
    `${failed} None of the versions specified ["one" "1" "1.01"] are supported. err=could not find a highest supported version from versions ([one 1 1.01]) reported by this driver: could not parse "one" as version`,
  ],
];
for (const [supportedVersions, expected] of versions) {
  test(`versions ${JSON.stringify(supportedVersions)} give ${expected.slice(0, 60)}`, () => {
    assert.equal(outcome({ supportedVersions }), expected);
  });
}

test('a driver takes the place of another of its name only with a higher version', () => {
  const higher = `${failed} Another driver with the same name is already registered with a higher supported version:`;
  assert.equal(outcome({}, '1.0.0'), `${higher} "1.0.0"`);
  assert.equal(outcome({}, '1.0.1'), `${higher} "1.0.1"`);
  assert.equal(outcome({ supportedVersions: ['1.1'] }, '1.0.9'), '1.1');
});

test('the whole text names the driver and its endpoint', () => {
  assert.throws(() => validDriver(given({ endpoint: '/csi.sock', supportedVersions: [] }), socket, none), {
    message: `validation failed for CSI Driver ${name} at endpoint /csi.sock: kubernetes.io/csi: ${failed} Plugin returned an empty list for supported versions`,
  });
});

test('names are those of CSI drivers, and no text of a driver can have lines or any length', () => {
  assert.equal(outcome({ name: '' }), 'name: Required value');
  for (const bad of ['../evil', 'a b', 'a'.repeat(64), 'name\nline', '\u0000']) {
    assert.throws(
      () => validDriver(given({ name: bad, endpoint: `/${'x'.repeat(100_000)}\n` }), socket, none),
      ({ message }: Error) => message.length < 2_000 && !/\p{Cc}/u.test(message),
      bad,
    );
  }
  const endless = Array.from({ length: 10_000 }, () => '9'.repeat(10_000));
  assert.ok(outcome({ supportedVersions: endless }).length < 10_000);
});

const endpoints: readonly (readonly [endpoint: string, path: string | undefined])[] = [
  ['', '1.0.0'],
  ['/plugins/driver/csi.sock', '/plugins/driver/csi.sock'],
  ['unix:///plugins/driver/csi.sock', '/plugins/driver/csi.sock'],
  ['unix:/plugins/driver/csi.sock', '/plugins/driver/csi.sock'],
  ['plugins/csi.sock', undefined],
  ['unix://host/csi.sock', undefined],
  ['tcp://10.0.0.1:1', undefined],
  ['dns:example.com', undefined],
  ['/plugins/../etc/csi.sock', undefined],
  ['/plugins/\u0000', undefined],
  [`/${'x'.repeat(107)}`, undefined],
];
for (const [endpoint, path] of endpoints) {
  test(`the endpoint ${JSON.stringify(endpoint).slice(0, 40)} is ${path ?? 'refused'}`, () => {
    assert.equal(
      outcome({ endpoint }),
      path ?? 'cannot use the endpoint: it must be an absolute path of at most 107 bytes without ".."',
    );
  });
}
