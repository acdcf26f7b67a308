/** The condition of a pod by which a node says whether variables that were taken from objects are still what the objects say. */
export const environmentCondition = 'mountlet.dev/EnvironmentCurrent';
