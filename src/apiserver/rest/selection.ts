/** Which objects a list or watch is about: selectors of labels and fields as one question. */
import type { LabelRequirement } from '../../kube/labels.ts';
import { LabelSelectorError, requirementsMatch } from '../../kube/labels.ts';
import { parseLabelSelector } from '../../kube/label-selector-parser.ts';
import { fieldMatcher, parseFieldSelector } from '../field-selector.ts';
import type { KubeObject, Resource } from '../resource.ts';
import { badRequest } from '../status.ts';

export interface Selection {
  /** Nothing is left out, so that no object needs to be looked at. */
  readonly isEverything: boolean;
  /** The one name that can match, where the selector fixes it. */
  readonly name: string | undefined;
  matches(object: KubeObject): boolean;
}

export function selectionOf(
  resource: Resource,
  selectors: { readonly labelSelector: string; readonly fieldSelector: string },
  urlName = '',
): Selection {
  const labels = labelsOf(selectors.labelSelector);
  const fields = parseFieldSelector(selectors.fieldSelector);
  const matchesFields = fieldMatcher(resource, fields);
  const pinned = fields.find(({ field, operator }) => field === 'metadata.name' && operator === '=')?.value;
  const name = urlName === '' ? pinned : urlName;
  return {
    isEverything: labels.length === 0 && fields.length === 0 && urlName === '',
    name,
    matches: (object) =>
      (urlName === '' || object.metadata.name === urlName) &&
      requirementsMatch(labels, object.metadata.labels ?? {}) &&
      matchesFields(object),
  };
}

/** The name a field selector fixes: for authorisation such a list is about that object alone. */
export function pinnedName(fieldSelector: string | null): string {
  if (fieldSelector === null || fieldSelector === '') return '';
  try {
    const requirement = parseFieldSelector(fieldSelector).find(
      ({ field, operator }) => field === 'metadata.name' && operator === '=',
    );
    return requirement === undefined || /[/%]/.test(requirement.value) ? '' : requirement.value;
  } catch {
    // The handler refuses it in due course; until then it pins nothing.
    return '';
  }
}

function labelsOf(text: string): readonly LabelRequirement[] {
  try {
    return parseLabelSelector(text);
  } catch (error) {
    if (error instanceof LabelSelectorError) throw badRequest(error.message);
    throw error;
  }
}
