/** The processor as Go, and with it Kubernetes, calls it: `amd64`. */
import { arch, endianness } from 'node:os';

const names: Readonly<Record<string, string>> = { x64: 'amd64', ia32: '386' };
const littleEndianNames: Readonly<Record<string, string>> = { ppc64: 'ppc64le', mips: 'mipsle' };

export function goArchitecture(): string {
  const name = arch();
  return (endianness() === 'LE' ? littleEndianNames[name] : undefined) ?? names[name] ?? name;
}
