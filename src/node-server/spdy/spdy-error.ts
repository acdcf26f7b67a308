import { MountletError } from '../../base/errors.ts';

/** The other end does not keep to SPDY/3.1; the connection cannot go on. */
export class SpdyError extends MountletError {
  readonly reason = 'SpdyProtocolError';
}
