/** The addresses behind a Service. Kept for those who write and read them; nothing here fills them in. */
import { objectFields, objectReference } from './metadata.ts';
import { integer, list, object, required, string } from './schema.ts';
import type { Of } from './schema.ts';

const address = object({ ip: required(string), hostname: string, nodeName: string, targetRef: objectReference });

export const endpoints = object({
  ...objectFields,
  subsets: list(
    object({
      addresses: list(address),
      notReadyAddresses: list(address),
      ports: list(object({ name: string, port: required(integer), protocol: string, appProtocol: string })),
    }),
  ),
});
export interface Endpoints extends Of<typeof endpoints> {}
export type EndpointSubset = NonNullable<Endpoints['subsets']>[number];

export function defaultEndpoints(given: Endpoints): Endpoints {
  if (given.subsets === undefined) return given;
  const withProtocol = (subset: EndpointSubset): EndpointSubset =>
    subset.ports === undefined
      ? subset
      : { ...subset, ports: subset.ports.map((port) => ({ ...port, protocol: port.protocol || 'TCP' })) };
  return { ...given, subsets: given.subsets.map(withProtocol) };
}
