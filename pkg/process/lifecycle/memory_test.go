package lifecycle

import (
	"math"
	"os"
	"os/exec"
	"runtime/debug"
	"testing"
	"testing/fstest"
)

const (
	mountV1 = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n36 31 0:33 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
	mountV2 = "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n"
	meminfo = "MemTotal:       16777216 kB\nMemFree:         1000 kB\nMemAvailable:    8388608 kB\n"
)

// files has /proc and /sys as files.
func files(of map[string]string) fstest.MapFS {
	all := fstest.MapFS{}
	for name, text := range of {
		all[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return all
}

// The least of what the machine and each control group above the process allow counts, in either version,
// and what idle caches of files take of it is left.
func TestMemoryLimit(t *testing.T) {
	const group = "sys/fs/cgroup/kubepods/pod7/c1/"
	v2 := func(files map[string]string) map[string]string {
		files["proc/meminfo"], files["proc/self/cgroup"], files["proc/self/mountinfo"] = meminfo, "0::/kubepods/pod7/c1\n", mountV2
		return files
	}
	v1 := func(of, mount string, files map[string]string) map[string]string {
		files["proc/meminfo"], files["proc/self/mountinfo"] = meminfo, mount
		files["proc/self/cgroup"] = "9:name=systemd:/x\n4:cpu,cpuacct:/y\n3:memory:" + of + "\n"
		return files
	}
	const machine = "this machine"
	for name, tc := range map[string]struct {
		files map[string]string
		want  Memory
	}{
		"nothing is known":      {map[string]string{}, Memory{}},
		"no container":          {map[string]string{"proc/meminfo": meminfo}, Memory{16 << 30, machine, 8 << 30}},
		"no limit":              {v2(map[string]string{group + "memory.max": "max\n"}), Memory{16 << 30, machine, 8 << 30}},
		"more than the machine": {v2(map[string]string{group + "memory.max": "68719476736\n"}), Memory{16 << 30, machine, 8 << 30}},
		"its own group": {
			v2(map[string]string{group + "memory.max": "4294967296\n", group + "memory.current": "1073741824\n", group + "memory.stat": "anon 1\ninactive_file 536870912\n"}),
			Memory{4 << 30, "the container (memory.max)", 4<<30 - 512<<20},
		},
		"a group above": {
			v2(map[string]string{group + "memory.max": "max\n", "sys/fs/cgroup/kubepods/pod7/memory.max": "2147483648\n", "sys/fs/cgroup/kubepods/pod7/memory.current": "1073741824\n"}),
			Memory{2 << 30, "the container (memory.max)", 1 << 30},
		},
		"the least of nested groups": {
			v2(map[string]string{group + "memory.max": "3221225472\n", "sys/fs/cgroup/kubepods/memory.max": "1073741824\n"}), Memory{1 << 30, "the container (memory.max)", 1 << 30},
		},
		"where it is throttled": {v2(map[string]string{group + "memory.high": "1073741824\n"}), Memory{1 << 30, "the container (memory.high)", 1 << 30}},
		"a namespace of its own": {
			map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n", "proc/self/mountinfo": mountV2, "sys/fs/cgroup/memory.max": "1073741824"},
			Memory{1 << 30, "the container (memory.max)", 1 << 30},
		},
		"more is used than there is": {
			v2(map[string]string{group + "memory.max": "1073741824\n", group + "memory.current": "2147483648\n"}), Memory{1 << 30, "the container (memory.max)", 0},
		},
		"version 1": {
			v1("/docker/a", mountV1, map[string]string{
				"sys/fs/cgroup/memory/docker/a/memory.limit_in_bytes": "9223372036854771712\n", "sys/fs/cgroup/memory/docker/memory.limit_in_bytes": "2147483648\n",
				"sys/fs/cgroup/memory/docker/memory.usage_in_bytes": "1073741824\n", "sys/fs/cgroup/memory/docker/memory.stat": "total_inactive_file 1073741824\n",
			}), Memory{2 << 30, "the container (memory.limit_in_bytes)", 2 << 30},
		},
		"version 1, the container's group mounted": {
			v1("/docker/a", "35 31 0:32 /docker/a /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", map[string]string{"sys/fs/cgroup/memory/memory.limit_in_bytes": "1073741824\n"}),
			Memory{1 << 30, "the container (memory.limit_in_bytes)", 1 << 30},
		},
		"version 1, another group mounted": {
			v1("/../a", "35 31 0:32 /b /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", map[string]string{"sys/fs/cgroup/memory/memory.limit_in_bytes": "1073741824\n"}),
			Memory{1 << 30, "the container (memory.limit_in_bytes)", 1 << 30},
		},
		"both versions, as systemd mounts them": {
			v1("/a", mountV1+"41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n", map[string]string{"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "1073741824\n"}),
			Memory{1 << 30, "the container (memory.limit_in_bytes)", 1 << 30},
		},
		"garbage": {map[string]string{"proc/meminfo": "MemTotal\n:\n", "proc/self/cgroup": "::\n0::\n", "proc/self/mountinfo": " - \na b c d e - cgroup2\n"}, Memory{}},
	} {
		if got := memoryIn(files(tc.files)); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

// GOMEMLIMIT counts, too, and is not replaced.
func TestGoMemoryLimit(t *testing.T) {
	if os.Getenv("LIMITED") != "" {
		before := debug.SetMemoryLimit(-1)
		if m := MemoryOf(); m.Limit != 64<<20 || m.By != goMemoryLimit || m.Left > m.Limit || BoundHeap() != 0 || debug.SetMemoryLimit(-1) != before {
			t.Fatalf("%+v, and the heap is bound to %d", m, debug.SetMemoryLimit(-1))
		}
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self, "-test.run", "^TestGoMemoryLimit$")
	c.Env = append(os.Environ(), "LIMITED=1", "GOMEMLIMIT=64MiB")
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Setenv(goMemoryLimit, "")
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	debug.SetMemoryLimit(math.MaxInt64)
	if bytes := boundHeap(files(map[string]string{"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": mountV2, "sys/fs/cgroup/memory.max": "1000000000"})); bytes != 900000000 || debug.SetMemoryLimit(-1) != bytes {
		t.Errorf("bound to %d and %d", bytes, debug.SetMemoryLimit(-1))
	}
}
