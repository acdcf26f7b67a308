/**
 * The proxy that the environment names (HTTPS_PROXY, HTTP_PROXY, NO_PROXY), by the rules of Go's programs, kubectl among them. A
 * kubeconfig's own `proxy-url` comes before it. No value is ever in an error: it may have a password in it.
 */
import { BlockList, isIP } from 'node:net';
import { MountletError } from '../base/errors.ts';

class InvalidProxyError extends MountletError {
  readonly reason = 'InvalidProxy';
  constructor(variable: string) {
    super(
      `Cannot use the proxy of ${variable}: give a URL such as http://proxy:3128; only http and https are supported`,
    );
  }
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Undefined when the server is reached directly; so is always one on this machine. */
export function environmentProxy(env: Environment, server: URL): URL | undefined {
  const variable = server.protocol === 'https:' ? 'HTTPS_PROXY' : 'HTTP_PROXY';
  const text = valueOf(env, variable);
  if (text === '' || isLoopback(server) || isExempt(server, valueOf(env, 'NO_PROXY'))) return undefined;
  const whole = text.includes('://') ? text : `http://${text}`;
  const proxy = URL.canParse(whole) ? new URL(whole) : undefined;
  if (proxy?.protocol !== 'http:' && proxy?.protocol !== 'https:') throw new InvalidProxyError(variable);
  return proxy;
}

function valueOf(env: Environment, name: string): string {
  return (env[name] || env[name.toLowerCase()] || '').trim();
}

function hostOf(url: URL): string {
  return url.hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '');
}

function isLoopback(server: URL): boolean {
  const host = hostOf(server);
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));
}

function isExempt(server: URL, list: string): boolean {
  const host = hostOf(server);
  const port = server.port || (server.protocol === 'https:' ? '443' : '80');
  return list
    .split(',')
    .map((entry) => entry.trim().toLowerCase())
    .some((entry) => entry === '*' || (entry !== '' && matches(entry, host, port)));
}

/** An address, a range of them, a domain with all below it, or with a dot in front only what is below; each with or without a port. */
function matches(entry: string, host: string, port: string): boolean {
  const range = /^(.+)\/(\d{1,3})$/.exec(entry);
  if (range !== null) return isInRange(host, range[1] ?? '', Number(range[2]));
  if (isIP(entry) !== 0) return host === entry;
  const [, name = '', wantedPort = port] = /^(\[[^\]]*\]|[^:]*)(?::(\d+))?$/.exec(entry) ?? [];
  if (wantedPort !== port) return false;
  const wanted = name.replace(/^\[|\]$/g, '').replace(/^\*\./, '.');
  return wanted.startsWith('.') ? host.endsWith(wanted) : host === wanted || host.endsWith(`.${wanted}`);
}

function isInRange(host: string, network: string, bits: number): boolean {
  const version = isIP(network);
  if (version === 0 || isIP(host) !== version || bits > (version === 4 ? 32 : 128)) return false;
  const family = version === 4 ? 'ipv4' : 'ipv6';
  const list = new BlockList();
  list.addSubnet(network, bits, family);
  return list.check(host, family);
}
