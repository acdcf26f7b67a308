import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commonRunAsUser } from './pod-references.ts';

const container = (runAsUser?: number): { name: string; securityContext?: { runAsUser: number } } =>
  runAsUser === undefined ? { name: 'c' } : { name: 'c', securityContext: { runAsUser } };

const cases = [
  { it: 'all containers agree', spec: { containers: [container(7), container(7)] }, user: 7 },
  { it: 'two differ', spec: { containers: [container(7), container(8)] }, user: undefined },
  { it: 'one has none', spec: { containers: [container(7), container()] }, user: undefined },
  {
    it: 'an init container differs',
    spec: { initContainers: [container(1)], containers: [container(7)] },
    user: undefined,
  },
  {
    it: 'an ephemeral container differs',
    spec: { containers: [container(7)], ephemeralContainers: [container(1)] },
    user: undefined,
  },
  {
    it: 'the pod is the fallback',
    spec: { securityContext: { runAsUser: 5 }, containers: [container(), container()] },
    user: 5,
  },
  { it: 'root is a user too', spec: { securityContext: { runAsUser: 5 }, containers: [container(0)] }, user: 0 },
  { it: 'there is no container', spec: { securityContext: { runAsUser: 5 }, containers: [] }, user: undefined },
];
for (const { it, spec, user } of cases) {
  test(`the common run-as user: ${it}`, () => {
    assert.equal(commonRunAsUser({ spec }), user);
  });
}
