package deploy

import (
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/loadtest/fleet"
)

// TestMain runs the tests in the folder with what is deployed.
func TestMain(m *testing.M) {
	if err := os.Chdir("../../deploy"); err != nil {
		panic(err)
	}
	fleet.Main(m)
}

// cluster is the manifests run as processes.
type cluster struct {
	t        *testing.T
	programs string
	all      []object
	secrets  map[string]map[string][]byte // by name
	// hosts are addresses of containers, and what each is here.
	hosts []string
}

// The containers of the manifests run, with the Secrets that the documented commands make
// and all that ConfigMaps say, and answer a producer; their probes say so.
func TestKubernetesProcesses(t *testing.T) {
	if testing.Short() || testkit.Race {
		t.Skip("a dozen processes, which are not raced")
	}
	c := &cluster{t: t, programs: fleet.Build(t), all: readManifests(t)}
	c.secrets = c.makeSecrets()
	nats, ok := named(c.all, "StatefulSet", "nats")
	if !ok {
		t.Fatal("there is no NATS")
	}
	for i := range nats.Spec.Replicas {
		for _, port := range []string{"4222", "6222"} {
			c.hosts = append(c.hosts, fmt.Sprintf("nats-%d.nats-servers:%s", i, port), testkit.FreeAddr(t))
		}
	}
	c.hosts = append(c.hosts, "kafka:9092", fleet.NewBroker(t, c.programs).Addr())
	c.startNATS(nats)
	door := testkit.FreeAddr(t)
	c.startServices(door)
	producer := c.mount("switchyard-producer", unit{})
	wantsAnswer(t, c.program("switchyard"), "--nats", "tls://"+c.address("nats-1.nats-servers:4222"),
		"--creds", filepath.Join(producer, "nats.creds"), "--tls-ca", filepath.Join(producer, "ca.pem"))
	wantsHTTPAnswer(t, door, gatewayKey, "there was a little girl")
	wantsHTTPAnswer(t, door, "another", "invalid_api_key")
}

func (c *cluster) program(name string) string { return filepath.Join(c.programs, name) }

// address is what an address is here.
func (c *cluster) address(of string) string { return c.hosts[slices.Index(c.hosts, of)+1] }

// documented are the arguments of a command of Switchyard's in kustomization.yaml.
func documented(t *testing.T, command string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(manifests, "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(data), "\\\n#", "")
	_, rest, found := strings.Cut(text, "#   switchyard "+command+" ")
	line, _, _ := strings.Cut(rest, "\n")
	line, _, _ = strings.Cut(line, " | ")
	if !found {
		t.Fatalf("kustomization.yaml does not say switchyard %s", command)
	}
	return append(strings.Fields(command), strings.Fields(line)...)
}

// makeSecrets does what kustomization.yaml says.
func (c *cluster) makeSecrets() map[string]map[string][]byte {
	dir := c.t.TempDir()
	run(c.t, dir, c.program("switchyard"), documented(c.t, "auth init")...)
	printed := run(c.t, dir, c.program("switchyard"), documented(c.t, "auth secrets")...)
	secrets := map[string]map[string][]byte{}
	for _, o := range decodeAll(c.t, strings.NewReader(printed)) {
		secrets[o.Metadata.Name] = map[string][]byte{}
		for file, text := range o.Data {
			data, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				c.t.Fatal(err)
			}
			secrets[o.Metadata.Name][file] = data
		}
	}
	secrets["gateway-keys"] = gatewayKeys()
	return secrets
}

// mount puts a Secret into a folder, as the unit sees its files.
func (c *cluster) mount(secret string, u unit) (dir string) {
	files, ok := c.secrets[secret]
	if !ok {
		c.t.Fatalf("there is no Secret %s; there are %v", secret, slices.Sorted(maps.Keys(c.secrets)))
	}
	dir = c.t.TempDir()
	u.write(c.t, files, dir)
	return dir
}

// unitOf is a pod's container as a process, with all that is mounted.
func (c *cluster) unitOf(o object, pod string, places ...string) unit {
	p := o.Spec.Template.Spec
	in := p.Containers[0]
	u := unit{name: pod, program: c.program(strings.Replace(strings.Split(in.Image, ":")[0], "nats", "nats-server", 1)), args: in.Args, env: environmentOf(c.t, c.all, in)}
	u.places = slices.Concat(places, c.hosts)
	for _, v := range in.Env {
		if v.ValueFrom.FieldRef.FieldPath == "metadata.name" {
			u.places = append(u.places, "$("+v.Name+")", pod)
			u.env[v.Name] = pod
		}
	}
	for _, m := range in.VolumeMounts {
		dir := c.t.TempDir()
		u.places = append(u.places, m.MountPath, dir)
		defer func() { u.write(c.t, c.secrets[secretOf(p, m.Name)], dir) }() // with all places
	}
	return u
}

// secretOf is the Secret of a volume; "" of another one.
func secretOf(p podSpec, name string) string {
	i := slices.IndexFunc(p.Volumes, func(v volume) bool { return v.Name == name })
	if i < 0 {
		return ""
	}
	return p.Volumes[i].Secret.SecretName
}

// startNATS starts the servers, and waits until each of their probes says that all is well.
func (c *cluster) startNATS(o object) {
	type server struct {
		*fleet.Process
		monitor string
	}
	var servers []server
	for i := range o.Spec.Replicas {
		pod, monitor := fmt.Sprintf("nats-%d", i), testkit.FreePort(c.t)
		u := c.unitOf(o, pod, "8222", monitor,
			"0.0.0.0:4222", c.address(pod+".nats-servers:4222"), "0.0.0.0:6222", c.address(pod+".nats-servers:6222"))
		servers = append(servers, server{u.start(c.t), monitor})
	}
	probes := o.Spec.Template.Spec.Containers[0]
	for _, s := range servers {
		for _, probe := range []probe{probes.StartupProbe, probes.ReadinessProbe, probes.LivenessProbe} {
			awaitPage(c.t, s.Process, "http://"+localhost(s.monitor)+probe.HTTPGet.Path)
		}
	}
}

// startServices starts one pod of each Deployment, and waits for their probes. The gateway's
// clients reach it at door.
func (c *cluster) startServices(door string) {
	type service struct {
		*fleet.Process
		metrics string
		probes  container
	}
	var services []service
	for _, o := range pods(c.all) {
		if o.Kind != "Deployment" {
			continue
		}
		metrics := testkit.FreeAddr(c.t)
		u := c.unitOf(o, o.Metadata.Name+"-0", "127.0.0.1:6060", "127.0.0.1:0")
		u.env["SWITCHYARD_METRICS_ADDR"] = metrics
		if u.env["SWITCHYARD_LISTEN"] != "" {
			u.env["SWITCHYARD_LISTEN"] = door
		}
		services = append(services, service{u.start(c.t), metrics, o.Spec.Template.Spec.Containers[0]})
	}
	for _, s := range services {
		for _, probe := range []probe{s.probes.StartupProbe, s.probes.ReadinessProbe, s.probes.LivenessProbe} {
			awaitPage(c.t, s.Process, "http://"+s.metrics+probe.HTTPGet.Path)
		}
	}
}
