import type { AnyContainer } from '../../kube/kinds/pod/pod-spec.ts';
import { HandlerError } from './handler-error.ts';

/** A port as a probe or a hook names it: by number, or as one of the container's ports. */
export function containerPort(port: string | number, { ports = [] }: AnyContainer): number {
  const named = typeof port === 'string' ? ports.find(({ name }) => name === port)?.containerPort : port;
  const number = named ?? (/^\d+$/.test(String(port)) ? Number(port) : undefined);
  if (number === undefined) throw new HandlerError(`couldn't find port: ${port}`);
  if (number <= 0 || number > 65_535) throw new HandlerError(`invalid port number: ${number}`);
  return number;
}
