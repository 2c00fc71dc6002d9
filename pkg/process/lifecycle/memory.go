package lifecycle

import (
	"fmt"
	"io/fs"
	"iter"
	"math"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

// Memory is what a process may take, in bytes. Zero means that nobody knows.
type Memory struct {
	// Limit is the most that it may have, and By what says so.
	Limit int64
	By    string
	// Left is what others leave of it for now.
	Left int64
}

// goMemoryLimit is the environment's word for the most that Go's heap is to take.
const goMemoryLimit = "GOMEMLIMIT"

// MemoryOf returns what this process may take: the least of what its machine, its container and
// GOMEMLIMIT allow.
func MemoryOf() Memory {
	m := memoryIn(os.DirFS("/"))
	if bytes := debug.SetMemoryLimit(-1); os.Getenv(goMemoryLimit) != "" && bytes < math.MaxInt64 {
		m = m.within(bytes, 0, goMemoryLimit)
	}
	return m
}

// heapShare is the part of a container's memory that Go's heap may take; stacks, maps of files and the
// kernel need the rest.
const heapShare = 0.9

// BoundHeap has Go collect garbage in time for the container's memory limit, unless GOMEMLIMIT says
// something: without it the heap may grow beyond, and the system ends the process. It returns what the heap may take;
// 0: nobody bounds it.
func BoundHeap() int64 { return boundHeap(os.DirFS("/")) }

func boundHeap(root fs.FS) int64 {
	m := containerMemory(root)
	if m.Limit == 0 || os.Getenv(goMemoryLimit) != "" {
		return 0
	}
	bytes := int64(heapShare * float64(m.Limit))
	debug.SetMemoryLimit(bytes)
	return bytes
}

// memoryIn reads it in a file system with /proc and /sys.
func memoryIn(root fs.FS) Memory {
	m := machineMemory(root)
	if c := containerMemory(root); c.Limit > 0 {
		m = m.within(c.Limit, c.Limit-c.Left, c.By)
	}
	return m
}

// within returns the memory where a limit holds, too, of which so much is in use.
func (m Memory) within(limit, used int64, by string) Memory {
	left := max(0, limit-used)
	if m.Limit == 0 {
		return Memory{limit, by, left}
	}
	if limit < m.Limit {
		m.Limit, m.By = limit, by
	}
	m.Left = min(m.Left, left)
	return m
}

// machineMemory reads /proc/meminfo, which counts in KiB.
func machineMemory(root fs.FS) Memory {
	all := numbersOf(root, "proc/meminfo")
	if all["MemTotal:"] == 0 {
		return Memory{}
	}
	return Memory{Limit: all["MemTotal:"] << 10, By: "this machine", Left: all["MemAvailable:"] << 10}
}

// versions are those of control groups: of what kind a mount is, which controller counts memory, and the files of
// a group. The second one has no controllers apart.
var versions = []struct {
	kind, controller string
	limits           []string
	used, idle       string
}{
	{"cgroup2", "", []string{"memory.max", "memory.high"}, "memory.current", "inactive_file"},
	{"cgroup", "memory", []string{"memory.limit_in_bytes"}, "memory.usage_in_bytes", "total_inactive_file"},
}

// unlimited is what a control group may say in place of no limit.
const unlimited = 1 << 60

// containerMemory returns the least that a control group of this process allows, or one that it is in.
func containerMemory(root fs.FS) (m Memory) {
	for _, c := range versions {
		mount, group, found := groupOf(root, c.kind, c.controller)
		for dir := path.Join(mount, group); found; dir = path.Dir(dir) {
			for _, name := range c.limits {
				limit, ok := numberIn(root, path.Join(dir, name))
				if !ok || limit <= 0 || limit >= unlimited {
					continue
				}
				used, _ := numberIn(root, path.Join(dir, c.used))
				// What is read from files and idle makes room when it is needed.
				used = max(0, used-numbersOf(root, path.Join(dir, "memory.stat"))[c.idle])
				m = m.within(limit, used, fmt.Sprintf("the container (%s)", name))
			}
			if dir == mount {
				break
			}
		}
	}
	return m
}

// groupOf returns where a kind of control groups is mounted, and this process's group below that.
func groupOf(root fs.FS, kind, controller string) (mount, group string, found bool) {
	for line := range lines(root, "proc/self/cgroup") { // hierarchy:controllers:group
		if part := strings.SplitN(line, ":", 3); len(part) == 3 && slices.Contains(strings.Split(part[1], ","), controller) {
			group, found = part[2], true
		}
	}
	for line := range lines(root, "proc/self/mountinfo") { // id parent device root mount options … - kind source options
		before, after, _ := strings.Cut(line, " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if len(f) < 5 || len(g) < 3 || g[0] != kind || controller != "" && !slices.Contains(strings.Split(g[2], ","), controller) {
			continue
		}
		below, is := strings.CutPrefix(group, strings.TrimSuffix(f[3], "/"))
		if !is || strings.Contains(below, "..") {
			below = "" // the mount shows the container's own group
		}
		return strings.TrimPrefix(path.Clean(f[4]), "/"), below, found
	}
	return "", "", false
}

// numbersOf reads a file with a name and a number a line.
func numbersOf(root fs.FS, file string) map[string]int64 {
	all := map[string]int64{}
	for line := range lines(root, file) {
		if f := strings.Fields(line); len(f) >= 2 {
			all[f[0]], _ = strconv.ParseInt(f[1], 10, 64)
		}
	}
	return all
}

// numberIn reads a file with one number; ok is false where there is none, such as "max".
func numberIn(root fs.FS, file string) (n int64, ok bool) {
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return 0, false
	}
	n, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

// lines returns the lines of a file; none where it is not there.
func lines(root fs.FS, file string) iter.Seq[string] {
	text, _ := fs.ReadFile(root, file)
	return strings.SplitSeq(string(text), "\n")
}
