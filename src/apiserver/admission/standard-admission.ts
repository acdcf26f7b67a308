/** The steps that every write goes through, in their order. */
import { namespaceLifecycle } from './namespace-lifecycle.ts';
import { nodeRestrictionAdmission } from './node-restriction-admission.ts';
import { podDefaultsAdmission } from './pod-defaults-admission.ts';
import { serviceAccountAdmission } from './service-account-admission.ts';
import type { AdmissionStep } from './admission.ts';

export function standardAdmission(deps: Parameters<typeof serviceAccountAdmission>[0]): readonly AdmissionStep[] {
  const { store } = deps;
  return [
    namespaceLifecycle(store),
    nodeRestrictionAdmission(store),
    podDefaultsAdmission,
    serviceAccountAdmission(deps),
  ];
}
