/**
 * The launcher: what runs between this program and a container's command, for sh(1) and util-linux alone. Constant texts;
 * data comes through descriptors (see launch-text.ts), settings that we made ourselves through variables `M_...`.
 *
 *   supervise   on the host, in a session of its own. Copies the container's output to files, and says how it ended.
 *     └ build     in the container's mount namespace, on the host's root. Makes the tmpfs, moves the root, then waits.
 *         └ enter   first process of the pid namespace, still privileged and on the host's root: mounts what was planned.
 *             ═ init    the same process without privileges. Waits for the new root, then runs the command and reaps.
 *                 └ the command
 *
 * The order is what keeps a container from running its own files with our privileges: every program that runs privileged
 * is loaded while its root is the host's. `init` gives the privileges up *before* the root is moved under it by
 * pivot_root(2), which changes the root of every process of the namespace; after that, nothing privileged executes
 * anything. The one who detaches the old root (`detach`) stands on a copy of the host's root that pivot_root leaves alone.
 *
 * Descriptors: 3 the data, later the command's text on tmpfs (kept by init, so that exec finds the environment there)
 *              4 go: init may run   5 detach: the root was moved   6 ready: both are waiting
 *              7, 8 the container's stdout and stderr   9 the status file
 *
 * `exec` meets containers that run, and may be watching for a process to take over: see exec-plan.ts.
 */

/** Reads one text of launch-text.ts from a descriptor into `mountlet_text`. */
const readText = `
mountlet_end='
'
mountlet_read() {
  IFS= read -r mountlet_lines <&"$1" || return 1
  IFS= read -r mountlet_text <&"$1" || return 1
  while [ "$mountlet_lines" -gt 0 ]; do
    IFS= read -r mountlet_more <&"$1" || return 1
    mountlet_text=$mountlet_text$mountlet_end$mountlet_more
    mountlet_lines=$((mountlet_lines - 1))
  done
}
`;

export const superviseScript = `
set -u
exec 9>>"$M_STATUS"
echo "supervisor $$" >&9
umask 077
cd "$M_DIRECTORY" || exit 1
rm -f out err stdin input
mkfifo -m 622 out err || exit 1
cat <out >>"$M_SPOOL.out" 3<&- 9>&- &
[ "$M_TTY" = 1 ] || cat <err >>"$M_SPOOL.err" 3<&- 9>&- &
feeder=
case $M_STDIN in
  keep) mkfifo -m 600 stdin input && { cat >input <>stdin 3<&- 9>&- & } && feeder=$! ;;
  once) mkfifo -m 600 stdin input && { cat >input <stdin 3<&- 9>&- & } && feeder=$! ;;
esac
input=input
[ -n "$feeder" ] || input=/dev/null
if [ "$M_TTY" = 1 ]; then
  script -qefc "exec 7>&1 8>&1 >>launch.log 2>&1; $M_RUN" /dev/null <"$input" >out 2>/dev/null
else
  eval "$M_RUN" <"$input" 7>out 8>err
fi
[ -z "$feeder" ] || kill "$feeder" 2>/dev/null
wait
rm -f out err stdin input
echo ended >&9
`;

export const buildScript = `${readText}
set -eu
umask 022
echo "build $$" >&9
[ "$M_STRAYS" = 0 ] || echo "namespace $(readlink /proc/self/ns/mnt)" >&9
for mountlet_group in $M_GROUPS; do echo 0 >"$mountlet_group"; done
mount -i -n -t tmpfs -o "$M_TMPFS" mountlet "$M_WORK"
cp -a "$M_SKELETON/." "$M_WORK/"
set --
read -r count <&3
while [ "$count" -gt 0 ]; do
  mountlet_read 3
  set -- "$@" "$M_WORK/$mountlet_text"
  count=$((count - 1))
done
[ $# = 0 ] || mkdir -p -- "$@"
read -r count <&3
while [ "$count" -gt 0 ]; do
  mountlet_read 3
  : >"$M_WORK/$mountlet_text"
  count=$((count - 1))
done
read -r count <&3
while [ "$count" -gt 0 ]; do
  mountlet_read 3
  printf '%s\\n' "$mountlet_text" >&4
  count=$((count - 1))
done 4>"$M_WORK/table"
read -r count <&3
while [ "$count" -gt 0 ]; do
  mountlet_read 3
  printf '%s\\n' "$mountlet_text" >&4
  count=$((count - 1))
done 4>"$M_WORK/points"
(umask 077 && cat <&3 >"$M_WORK/command")
exec 3<"$M_WORK/command"
mkfifo -m 600 "$M_WORK/go" "$M_WORK/moved" "$M_WORK/ready"
exec 4<>"$M_WORK/go" 5<>"$M_WORK/moved" 6<>"$M_WORK/ready"
(
  set +e
  read -r line <&6
  [ "$line" = ready ] || exit 1
  trap 'echo failed >&4' EXIT
  cd "$M_WORK/m" || exit 1
  exec 3<"$M_WORK/m" 7>&- 8>&- 9>&-
  unshare --root="$M_WORK/host" sh -c '
    cd /proc/self/fd/3 && exec 3<&- && echo ready >&6 && read -r moved <&5 && exec umount -l -n -c -i .
  ' mountlet-detach &
  exec 3<&-
  read -r line <&6
  pivot_root . . || exit 1
  echo moved >&5
  wait $! && trap - EXIT && echo go >&4
) &
status=0
$M_ENTER sh -c 'eval "$M_ENTERED"' mountlet-enter || status=$?
echo failed >&6
exit "$status"
`;

/** Between the mounts and the look at them no program is started: a link may have put a mount over it. */
export const enterScript = `
set -eu
exec 2>&1
mount -i -n -a -T "$M_WORK/table"
if [ -s "$M_WORK/points" ]; then
  found='
'
  while read -r one two three four point rest; do
    found="$found$point
"
  done </proc/self/mountinfo
  while read -r point; do
    case $found in
      *"
$point
"*) ;;
      *) echo "mount: $point: it was replaced by a link while the volume was being mounted"; exit 1 ;;
    esac
  done <"$M_WORK/points"
fi
mount -i -n -t none -o rbind,rprivate / "$M_WORK/host"
exec setpriv $M_PRIVILEGES -- sh -c 'eval "$M_INIT"' mountlet-init
`;

/** Takes what is left in descriptor 3: working directory, variables, and with \`words\` the command. */
const takeCommand = `
mountlet_take() {
  mountlet_read 3 && mountlet_directory=$mountlet_text
  read -r mountlet_count <&3
  while [ "$mountlet_count" -gt 0 ]; do
    mountlet_read 3 && mountlet_name=$mountlet_text && mountlet_read 3 && export "$mountlet_name=$mountlet_text"
    mountlet_count=$((mountlet_count - 2))
  done
  read -r mountlet_special <&3
  mountlet_failure=
}
mountlet_find() {
  case $1 in
    */*)
      mountlet_program=$1
      if [ ! -e "$1" ]; then mountlet_failure="exec: \\"$1\\": stat $1: no such file or directory"
      elif [ -d "$1" ]; then mountlet_failure="exec: \\"$1\\": is a directory"
      elif [ ! -x "$1" ]; then mountlet_failure="exec: \\"$1\\": permission denied"; fi
      return ;;
  esac
  mountlet_rest=$PATH:
  while [ -n "$mountlet_rest" ]; do
    mountlet_program=\${mountlet_rest%%:*}
    mountlet_program=\${mountlet_program:-.}/$1
    mountlet_rest=\${mountlet_rest#*:}
    [ -f "$mountlet_program" ] && [ -x "$mountlet_program" ] && return
  done
  mountlet_failure="exec: \\"$1\\": executable file not found in \\$PATH"
}
mountlet_forget='M_SUPERVISE M_EXEC M_DIRECTORY M_STATUS M_SPOOL M_TTY M_STDIN M_RUN M_GROUPS M_TMPFS M_WORK M_SKELETON M_ENTER M_ENTERED M_PRIVILEGES M_INIT M_BUILD M_STAGE M_USER M_KEEP M_DROP M_STRAYS LC_ALL SHELL PWD OLDPWD SHLVL'
`;

/** Appends the words of a command to the positional parameters, the first one as the path of its program. */
function takeWords(descriptor: number): string {
  return `read -r mountlet_count <&${descriptor}
mountlet_program=
while [ "$mountlet_count" -gt 0 ]; do
  mountlet_read ${descriptor}
  [ -n "$mountlet_program" ] || { mountlet_find "$mountlet_text"; mountlet_text=$mountlet_program; }
  set -- "$@" "$mountlet_text"
  mountlet_count=$((mountlet_count - 1))
done
`;
}

export const initScript = `${readText}${takeCommand}
exec 2>/dev/null
echo ready >&6
read -r mountlet_go <&4
[ "$mountlet_go" = go ] || exit 1
cd /
exec 4<&- 5<&- 6<&- >&7 7>&-
unset $mountlet_forget
mountlet_take
while [ "$mountlet_special" -gt 0 ]; do
  mountlet_read 3 && set -- "$@" "$mountlet_text"
  mountlet_special=$((mountlet_special - 1))
done
[ $# = 0 ] || set -- /usr/bin/env "$@"
cd "$mountlet_directory" || mountlet_failure="chdir to cwd (\\"$mountlet_directory\\") set in config.json failed: no such file or directory"
${takeWords(3)}if [ -n "$mountlet_failure" ]; then
  printf 'failed %s\\n' "$mountlet_failure" >&9
  exit 128
fi
unset PWD OLDPWD
# Told by the command's own process, so that it is there when this is read.
(echo started >&9 && exec "$@" 2>&8 8>&- 3<&- 9>&-)
mountlet_code=$?
echo "code $mountlet_code" >&9
exit "$mountlet_code"
`;

export const execScript = `
for mountlet_group in $M_GROUPS; do echo 0 >"$mountlet_group" || exit 1; done
exec $M_ENTER setpriv $M_KEEP -- setpriv $M_PRIVILEGES -- unshare --root=. --fork $M_USER -- $M_DROP /bin/sh -c 'eval "$M_STAGE"' mountlet-exec
`;

export const stageScript = `${readText}${takeCommand}
unset $mountlet_forget
mountlet_take
while [ "$mountlet_special" -gt 0 ]; do
  mountlet_read 3 && set -- "$@" "$mountlet_text"
  mountlet_special=$((mountlet_special - 1))
done
[ $# = 0 ] || set -- /usr/bin/env "$@"
cd "$mountlet_directory" 2>/dev/null || cd /
${takeWords(4)}if [ -n "$mountlet_failure" ]; then
  printf 'failed %s\\n' "$mountlet_failure" >&5
  exit 126
fi
unset PWD OLDPWD
echo started >&5
exec "$@" 3<&- 4<&- 5>&-
`;

/** Keeps what the containers of a pod share. With a pid namespace of its own it is that namespace's reaper. */
export const holdScript = `
if [ -n "$M_HOSTNAME" ]; then
  # The file is the machine's root's alone; hostname(1) does not belong to util-linux. A pod can do without.
  { printf '%s' "$M_HOSTNAME" >/proc/sys/kernel/hostname; } 2>/dev/null || hostname "$M_HOSTNAME" 2>/dev/null
fi
while read -r name value; do
  [ -z "$name" ] || printf '%s' "$value" >"/proc/sys/$name" || exit 1
done <<END
$M_SYSCTLS
END
echo ready >&3
exec 2>/dev/null 3>&-
if [ "$M_REAPS" = 1 ]; then
  sleep infinity &
  while :; do wait; done
fi
exec sleep infinity
`;
