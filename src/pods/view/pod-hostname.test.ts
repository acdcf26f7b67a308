import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type PodParts, aPod } from '../../testing/fakes/builders.ts';
import { podHostname } from './hosts-file.ts';

const long = `${'a'.repeat(62)}-b`;
const good: readonly {
  readonly it: string;
  readonly pod: PodParts;
  readonly name: string;
  readonly domain?: string;
}[] = [
  { it: 'its own name', pod: {}, name: 'web' },
  { it: 'its hostname', pod: { hostname: 'db' }, name: 'db' },
  { it: 'its subdomain', pod: { hostname: 'db', subdomain: 'x' }, name: 'db', domain: 'x.shop.svc.cluster.local' },
  {
    it: 'an override and no domain',
    pod: { hostnameOverride: 'a.example', hostname: 'db', subdomain: 'x' },
    name: 'a.example',
  },
  { it: 'a name that was cut without a dash at its end', pod: { metadata: { name: long } }, name: 'a'.repeat(62) },
];
for (const { it, pod, name, domain = '' } of good) {
  test(`podHostname gives ${it}`, () => {
    assert.deepEqual(podHostname(aPod(pod), 'cluster.local'), { name, domain });
  });
}

const bad: readonly { readonly pod: PodParts; readonly message: RegExp }[] = [
  {
    pod: { hostnameOverride: '-x' },
    message: /^pod HostnameOverride "-x" is not a valid DNS subdomain: a lowercase RFC 1123/,
  },
  { pod: { hostname: 'a.b' }, message: /^pod Hostname "a\.b" is not a valid DNS label: must not contain dots$/ },
  { pod: { subdomain: 'A' }, message: /^pod Subdomain "A" is not a valid DNS label: a lowercase RFC 1123 label/ },
  { pod: { metadata: { name: '.'.repeat(64) } }, message: /^hostname for pod "\.{64}" was invalid: "\.{64}"$/ },
];
for (const { pod, message } of bad) {
  test(`podHostname refuses ${JSON.stringify(pod)}`, () => {
    assert.throws(() => podHostname(aPod(pod), 'cluster.local'), { reason: 'CreateContainerConfigError', message });
  });
}
