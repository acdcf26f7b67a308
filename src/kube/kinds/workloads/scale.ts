/** How many pods a workload should have, and has: the part of it that autoscalers and `kubectl scale` know. */
import { type Kind, exchangedKind } from '../../schema/kind.ts';
import { objectFields } from '../../schema/meta.ts';
import { nonNegativeErrors, validateObjectMeta } from '../../schema/metadata-validation.ts';
import { type Of, described, int32, object, required, string } from '../../schema/schema.ts';
import { dnsSubdomainProblems } from '../../values/names.ts';

const scaleShape = described(
  {
    text: 'How many pods a workload should have, and has.',
    fields: { spec: 'How many there should be.', status: 'How many there are.' },
  },
  object({
    ...objectFields,
    spec: object({ replicas: int32 }),
    status: object({ replicas: required(int32), selector: string }),
  }),
);
export interface Scale extends Of<typeof scaleShape> {}

export const scaleKind: Kind<Scale> = exchangedKind<Scale>({
  group: 'autoscaling',
  kind: 'Scale',
  shape: scaleShape,
  validate: ({ metadata, spec }) => [
    ...validateObjectMeta(metadata, { name: dnsSubdomainProblems, scope: 'namespace' }),
    ...nonNegativeErrors(spec?.replicas ?? 0, ['spec', 'replicas']),
  ],
  wire: {
    Scale: '1 metadata ObjectMeta, 2 spec ScaleSpec, 3 status ScaleStatus',
    ScaleSpec: '1 replicas int',
    ScaleStatus: '1 replicas! int, 2 selector',
  },
});
