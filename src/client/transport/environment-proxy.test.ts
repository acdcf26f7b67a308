import assert from 'node:assert/strict';
import { test } from 'node:test';
import { environmentProxy } from './dial.ts';

const http = 'http://proxy:3128';
const cases: readonly {
  readonly it: string;
  readonly env: Readonly<Record<string, string>>;
  readonly server?: string;
  readonly proxy: string | undefined;
}[] = [
  { it: 'nothing', env: {}, proxy: undefined },
  { it: 'HTTPS_PROXY for https', env: { HTTPS_PROXY: http, HTTP_PROXY: 'http://other' }, proxy: 'proxy:3128' },
  { it: 'HTTP_PROXY for http', env: { HTTP_PROXY: http }, server: 'http://api.acme.com', proxy: 'proxy:3128' },
  { it: 'no HTTP_PROXY for https', env: { HTTP_PROXY: http }, proxy: undefined },
  { it: 'a name in small letters', env: { https_proxy: http }, proxy: 'proxy:3128' },
  { it: 'a host without a scheme', env: { HTTPS_PROXY: 'proxy:3128' }, proxy: 'proxy:3128' },
  { it: 'an empty variable as none', env: { HTTPS_PROXY: '' }, proxy: undefined },
  { it: 'none for localhost', env: { HTTPS_PROXY: http }, server: 'https://localhost:6443', proxy: undefined },
  { it: 'none for a loopback address', env: { HTTPS_PROXY: http }, server: 'https://127.0.0.9', proxy: undefined },
  { it: 'none for ::1', env: { HTTPS_PROXY: http }, server: 'https://[::1]:6443', proxy: undefined },
  ...[
    { no: '*', isDirect: true },
    { no: 'acme.com', isDirect: true },
    { no: 'API.acme.com', isDirect: true },
    { no: '.acme.com', isDirect: true },
    { no: '*.acme.com', isDirect: true },
    { no: 'x.y, acme.com:6443', isDirect: true },
    { no: 'acme.com:443', isDirect: false },
    { no: '.api.acme.com', isDirect: false },
    { no: 'cme.com', isDirect: false },
    { no: ',', isDirect: false },
  ].map(({ no, isDirect }) => ({
    it: `${isDirect ? 'none' : 'it'} for NO_PROXY "${no}"`,
    env: { HTTPS_PROXY: http, NO_PROXY: no },
    proxy: isDirect ? undefined : 'proxy:3128',
  })),
  ...[
    { no: '10.96.0.0/12', server: 'https://10.97.1.1', isDirect: true },
    { no: '10.96.0.0/12', server: 'https://10.112.0.1', isDirect: false },
    { no: '10.96.0.0/99', server: 'https://10.96.0.1', isDirect: false },
    { no: '10.96.0.1', server: 'https://10.96.0.1', isDirect: true },
    { no: '10.96.0.1:443', server: 'https://10.96.0.1', isDirect: true },
    { no: 'fd00::/8', server: 'https://[fd00::1]:6443', isDirect: true },
    { no: 'fd00::1', server: 'https://[fd00::1]:6443', isDirect: true },
    { no: '[fd00::1]:6443', server: 'https://[fd00::1]:6443', isDirect: true },
    { no: 'fd00::2', server: 'https://[fd00::1]:6443', isDirect: false },
  ].map(({ no, server, isDirect }) => ({
    it: `${isDirect ? 'none' : 'it'} for ${server} and no_proxy "${no}"`,
    env: { HTTPS_PROXY: http, no_proxy: no },
    server,
    proxy: isDirect ? undefined : 'proxy:3128',
  })),
];
for (const { it, env, server = 'https://api.acme.com:6443', proxy } of cases) {
  test(`the proxy of the environment is taken from ${it}`, () => {
    assert.equal(environmentProxy(env, new URL(server))?.host, proxy);
  });
}

for (const text of ['socks5://ann:hunter2@proxy', 'http://ann:hunter2@', 'ftp://proxy']) {
  test(`a proxy "${text.split(':')[0]}" that cannot be used is refused without its value`, () => {
    assert.throws(
      () => environmentProxy({ HTTPS_PROXY: text }, new URL('https://api')),
      (error: Error) => error.message.includes('HTTPS_PROXY') && !error.message.includes('hunter2'),
    );
  });
}
