/** Environment variables that tell a container where the services of its namespace are. */
export interface VariableService {
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly spec: { readonly clusterIP?: string; readonly ports?: readonly ServicePort[] };
}

export interface ServicePort {
  readonly name?: string;
  readonly port: number;
  readonly protocol?: string;
}

/** The API server's own service is always told, all others only if the pod wants service links. */
const apiService = 'kubernetes';
const apiNamespace = 'default';

/** The variables of a pod. A service named `kubernetes` in the pod's namespace comes before the API server's own. */
export function serviceVariablesOf(
  services: Iterable<VariableService>,
  pod: { readonly namespace: string; readonly enableServiceLinks: boolean },
): Map<string, string> {
  const chosen = new Map<string, VariableService>();
  for (const service of services) {
    const { name, namespace } = service.metadata;
    if (!hasClusterIp(service)) continue;
    if (namespace === apiNamespace && name === apiService) {
      if (!chosen.has(name)) chosen.set(name, service);
    } else if (namespace === pod.namespace && pod.enableServiceLinks) chosen.set(name, service);
  }
  return new Map(serviceVariables(chosen.values()));
}

/** Name and value of every variable, service by service. Headless services and those without an address have none. */
export function serviceVariables(services: Iterable<VariableService>): (readonly [name: string, value: string])[] {
  return [...services].filter(hasClusterIp).flatMap(variablesOf);
}

function hasClusterIp({ spec: { clusterIP = '' } }: VariableService): boolean {
  return clusterIP !== '' && clusterIP !== 'None';
}

function variablesOf({ metadata, spec }: VariableService): (readonly [string, string])[] {
  const { clusterIP: address = '', ports = [] } = spec;
  const prefix = variableName(metadata.name);
  const variables: (readonly [string, string])[] = [[`${prefix}_SERVICE_HOST`, address]];
  const [first] = ports;
  if (first === undefined) return variables;
  variables.push([`${prefix}_SERVICE_PORT`, String(first.port)]);
  for (const { name = '', port } of ports) {
    if (name !== '') variables.push([`${prefix}_SERVICE_PORT_${variableName(name)}`, String(port)]);
  }
  variables.push([`${prefix}_PORT`, urlOf(address, first)]);
  for (const port of ports) {
    const name = `${prefix}_PORT_${port.port}_${protocolOf(port).toUpperCase()}`;
    variables.push(
      [name, urlOf(address, port)],
      [`${name}_PROTO`, protocolOf(port).toLowerCase()],
      [`${name}_PORT`, String(port.port)],
      [`${name}_ADDR`, address],
    );
  }
  return variables;
}

function urlOf(address: string, port: ServicePort): string {
  const host = address.includes(':') ? `[${address}]` : address;
  return `${protocolOf(port).toLowerCase()}://${host}:${port.port}`;
}

function protocolOf({ protocol = '' }: ServicePort): string {
  return protocol === '' ? 'TCP' : protocol;
}

function variableName(name: string): string {
  return name.replaceAll('-', '_').toUpperCase();
}
