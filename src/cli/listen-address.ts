import { MountletError } from '../base/errors.ts';

export class ListenAddressError extends MountletError {
  readonly reason = 'InvalidListenAddress';
  constructor(text: string) {
    super(
      `Cannot listen on "${text}": give HOST:PORT, such as 127.0.0.1:6443 or [::1]:6443; port 0 takes any free one`,
    );
  }
}

const portMax = 65_535;

/** `127.0.0.1:6443`, `[::1]:0`, `:6443` for this machine alone. */
export function parseListen(text: string): { readonly host: string; readonly port: number } {
  const [, bracketed, plain, digits] = /^(?:\[([^\]]+)\]|([^:[\]]*)):(\d{1,5})$/.exec(text) ?? [];
  const port = Number(digits);
  if (digits === undefined || port > portMax) throw new ListenAddressError(text);
  return { host: bracketed ?? (plain === undefined || plain === '' ? '127.0.0.1' : plain), port };
}
