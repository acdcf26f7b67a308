/** The machine under a node, as data: found out by whoever knows the system, told by the node's status. */
export interface MachineFacts {
  /** What there is of `cpu`, `memory` and `ephemeral-storage`, and of huge pages where there are any. */
  readonly capacity: Readonly<Record<string, string>>;
  /** The first is the one that pods see. */
  readonly internalAddresses: readonly string[];
  readonly machineId: string;
  readonly systemUuid: string;
  /** Another one after each boot. */
  readonly bootId: string;
  readonly kernelVersion: string;
  readonly osImage: string;
  /** As Go names them: `linux`, `amd64`. */
  readonly operatingSystem: string;
  readonly architecture: string;
}
