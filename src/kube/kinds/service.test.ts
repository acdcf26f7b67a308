import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decoded, messagesOf } from '../../testing/fakes/builders.ts';
import { serviceKind, serviceShape } from './service.ts';

interface Case {
  readonly it: string;
  readonly spec: object;
  readonly errors: readonly string[];
}

const ports = [{ port: 80 }];
const cases: readonly Case[] = [
  { it: 'accepts one port', spec: { ports }, errors: [] },
  { it: 'accepts no port at all where it has no address', spec: { clusterIP: 'None' }, errors: [] },
  { it: 'asks for ports', spec: {}, errors: ['spec.ports: Required value'] },
  {
    it: 'wants several ports named, and each once',
    spec: { ports: [{ port: 80 }, { name: 'a', port: 0 }, { name: 'a', port: 80, protocol: 'x', nodePort: 1 }] },
    errors: [
      'spec.ports[0].name: Required value',
      'spec.ports[1].port: Invalid value: 0: must be between 1 and 65535, inclusive',
      'spec.ports[1].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive',
      'spec.ports[2].name: Duplicate value: "a"',
      'spec.ports[2].protocol: Unsupported value: "x": supported values: "SCTP", "TCP", "UDP"',
      "spec.ports[2].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
    ],
  },
  {
    it: 'refuses the same port twice',
    spec: {
      ports: [
        { name: 'a', port: 80 },
        { name: 'b', port: 80 },
      ],
    },
    errors: [
      'spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}',
    ],
  },
  {
    it: 'holds addresses to what addresses are',
    spec: { ports, clusterIP: 'x', clusterIPs: ['y', 'None'], externalIPs: ['z'] },
    errors: [
      'spec.clusterIPs: Invalid value: ["y","None"]: first value must match `clusterIP`',
      'spec.clusterIPs[0]: Invalid value: "y": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
      'spec.clusterIPs[1]: Invalid value: "None": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
      'spec.externalIPs[0]: Invalid value: "z": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
    ],
  },
  {
    it: 'gives an external name no address',
    spec: { type: 'ExternalName', clusterIP: '1.2.3.4' },
    errors: [
      'spec.clusterIPs: Forbidden: may not be set for ExternalName services',
      'spec.externalName: Required value',
    ],
  },
  {
    it: 'holds its choices to what there is',
    spec: { ports, type: 'Mine', sessionAffinity: 'Always' },
    errors: [
      'spec.sessionAffinity: Unsupported value: "Always": supported values: "ClientIP", "None"',
      'spec.type: Unsupported value: "Mine": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"',
    ],
  },
  {
    it: 'holds stickiness to a day',
    spec: { ports, sessionAffinity: 'ClientIP', sessionAffinityConfig: { clientIP: { timeoutSeconds: 86401 } } },
    errors: [
      'spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 86401: must be greater than 0 and less than 86400',
    ],
  },
  {
    it: 'makes stickiness three hours where nothing is said',
    spec: { ports, sessionAffinity: 'ClientIP' },
    errors: [],
  },
];
for (const { it, spec, errors } of cases) {
  test(`validateService ${it}`, () => {
    const object = decoded(serviceShape, { metadata: { name: '1web', namespace: 'shop' }, spec });
    assert.deepEqual(messagesOf(serviceKind.validate(serviceKind.complete(object))), errors);
  });
}
