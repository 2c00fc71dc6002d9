package deploy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/switchyard/switchyard/internal/flagvalue"
)

// TestKubernetes wants a Deployment of each service, with the label by which
// faults/kubernetes finds its pods.
func TestKubernetes(t *testing.T) {
	ran := map[string]string{}
	for _, o := range pods(readManifests(t)) {
		app, pod := o.Spec.Selector.app(), o.Spec.Template
		if app != o.Metadata.Name || pod.Metadata.Labels["app"] != app || len(pod.Spec.Containers) != 1 {
			t.Errorf("%s: selects %q, has labels %v and %d containers", o.Metadata.Name, app, pod.Metadata.Labels, len(pod.Spec.Containers))
			continue
		}
		ran[app] = strings.Join(pod.Spec.Containers[0].Args, " ")
	}
	for _, name := range append(slices.Clone(deployed), "gateway") {
		if ran["switchyard-"+name] != name {
			t.Errorf("switchyard-%s runs %q", name, ran["switchyard-"+name])
		}
	}
}

// All files of the folder are applied.
func TestKustomization(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(manifests, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	applied := map[string]bool{"kustomization.yaml": true}
	for _, o := range readManifests(t) {
		applied[o.file] = true
	}
	for _, file := range files {
		if !applied[filepath.Base(file)] {
			t.Errorf("kustomization.yaml leaves %s out", file)
		}
	}
}

// rules are what each pod has to keep to: Kubernetes' restricted profile, and what a node
// that goes down or is full needs to know.
var rules = []struct {
	name  string
	holds func(o object, p podSpec, c container) bool
}{
	{"no root", func(_ object, p podSpec, _ container) bool {
		return p.SecurityContext.RunAsNonRoot && p.SecurityContext.RunAsUser > 0
	}},
	{"seccomp", func(_ object, p podSpec, _ container) bool {
		return p.SecurityContext.SeccompProfile.Type == "RuntimeDefault"
	}},
	{"no escalation", func(_ object, _ podSpec, c container) bool {
		s := c.SecurityContext
		return s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation && !s.Privileged
	}},
	{"no capabilities", func(_ object, _ podSpec, c container) bool {
		k := c.SecurityContext.Capabilities
		return slices.Equal(k.Drop, []string{"ALL"}) && len(k.Add) == 0
	}},
	{"read-only root", func(o object, _ podSpec, c container) bool {
		return c.SecurityContext.ReadOnlyRootFilesystem || o.Metadata.Name == "kafka" // whose image writes there
	}},
	{"no token", func(_ object, p podSpec, _ container) bool {
		return isFalse(p.AutomountServiceAccountToken) && isFalse(p.EnableServiceLinks)
	}},
	{"time to drain", func(_ object, p podSpec, _ container) bool { return p.TerminationGracePeriodSeconds >= 30 }},
	{"spread", func(o object, p podSpec, _ container) bool {
		keys := map[string]bool{}
		for _, c := range p.TopologySpreadConstraints {
			keys[c.TopologyKey] = c.LabelSelector.app() == o.Metadata.Name
		}
		return keys["kubernetes.io/hostname"] && keys["topology.kubernetes.io/zone"] || o.Spec.Replicas == 1 && o.Kind == "StatefulSet"
	}},
	{"resources", func(_ object, _ podSpec, c container) bool {
		r := c.Resources
		return r.Requests["cpu"] != "" && r.Requests["memory"] != "" && r.Limits["cpu"] != "" && r.Limits["memory"] != ""
	}},
	{"probes", func(_ object, _ podSpec, c container) bool {
		return hasPort(c, c.StartupProbe.port()) && hasPort(c, c.ReadinessProbe.port()) && hasPort(c, c.LivenessProbe.port())
	}},
	{"mounts", func(o object, p podSpec, c container) bool {
		for _, m := range c.VolumeMounts {
			if !hasVolume(o, p, m.Name) {
				return false
			}
		}
		return true
	}},
}

func isFalse(b *bool) bool { return b != nil && !*b }

func hasPort(c container, name string) bool {
	for _, p := range c.Ports {
		if p.Name == name {
			return true
		}
	}
	return false
}

func hasVolume(o object, p podSpec, name string) bool {
	for _, v := range p.Volumes {
		if v.Name == name {
			return true
		}
	}
	for _, v := range o.Spec.VolumeClaimTemplates {
		if v.Metadata.Name == name {
			return true
		}
	}
	return false
}

// Every pod keeps to the rules, and is protected from being taken away with its siblings.
func TestPods(t *testing.T) {
	all := readManifests(t)
	for _, o := range pods(all) {
		p := o.Spec.Template.Spec
		for _, rule := range rules {
			if !rule.holds(o, p, p.Containers[0]) {
				t.Errorf("%s: %s", o.Metadata.Name, rule.name)
			}
		}
		budget, ok := named(all, "PodDisruptionBudget", o.Metadata.Name)
		if !ok || budget.Spec.Selector.app() != o.Metadata.Name || budget.Spec.MaxUnavailable != 1 {
			t.Errorf("%s: no budget of one", o.Metadata.Name)
		}
	}
}

// What a service's probes and Prometheus ask is where the service answers, profiles are the
// pod's own, and all that a pod refers to is there.
func TestServicePods(t *testing.T) {
	all := readManifests(t)
	for _, o := range pods(all) {
		p := o.Spec.Template.Spec
		c := p.Containers[0]
		if c.Image != "switchyard" {
			continue
		}
		env := environmentOf(t, all, c)
		port := strings.TrimPrefix(env["SWITCHYARD_METRICS_ADDR"], ":")
		a := o.Spec.Template.Metadata.Annotations
		if c.Ports[0].Name != "metrics" || a["prometheus.io/port"] != port || a["prometheus.io/scrape"] != "true" {
			t.Errorf("%s: port %+v, annotations %v, metrics at %s", o.Metadata.Name, c.Ports, a, port)
		}
		if c.StartupProbe.HTTPGet.Path != "/healthz" || c.LivenessProbe.HTTPGet.Path != "/healthz" || c.ReadinessProbe.HTTPGet.Path != "/readyz" {
			t.Errorf("%s: probes %+v %+v %+v", o.Metadata.Name, c.StartupProbe, c.LivenessProbe, c.ReadinessProbe)
		}
		if host, _, _ := strings.Cut(env["SWITCHYARD_PPROF_ADDR"], ":"); !flagvalue.IsLoopback(host) {
			t.Errorf("%s has profiles at %q", o.Metadata.Name, env["SWITCHYARD_PPROF_ADDR"])
		}
		if p.Volumes[0].Secret.SecretName != o.Metadata.Name {
			t.Errorf("%s has the credentials of %s", o.Metadata.Name, p.Volumes[0].Secret.SecretName)
		}
	}
}

// environmentOf is a container's environment, of ConfigMaps that must be there.
func environmentOf(t *testing.T, all []object, c container) map[string]string {
	t.Helper()
	env := map[string]string{}
	for _, from := range c.EnvFrom {
		m, ok := named(all, "ConfigMap", from.ConfigMapRef.Name)
		if !ok {
			t.Errorf("%s: there is no ConfigMap %s", c.Name, from.ConfigMapRef.Name)
		}
		for name, value := range m.Data {
			env[name] = value
		}
	}
	for _, v := range c.Env {
		env[v.Name] = v.Value
	}
	return env
}

// Services and policies are of pods that there are.
func TestSelectors(t *testing.T) {
	all := readManifests(t)
	apps := map[string]bool{}
	for _, o := range pods(all) {
		apps[o.Metadata.Name] = true
		if o.Kind != "StatefulSet" {
			continue
		}
		if _, ok := named(all, "Service", o.Spec.ServiceName); !ok {
			t.Errorf("%s: there is no Service %q", o.Metadata.Name, o.Spec.ServiceName)
		}
	}
	for _, o := range all {
		app := o.Spec.Selector.app() + o.Spec.PodSelector.MatchLabels["app"]
		if slices.Contains([]string{"Service", "NetworkPolicy", "PodDisruptionBudget"}, o.Kind) && !apps[app] {
			t.Errorf("%s %s selects %q", o.Kind, o.Metadata.Name, app)
		}
	}
}

// The namespace lets in none but pods of the restricted profile.
func TestNamespace(t *testing.T) {
	n, ok := named(readManifests(t), "Namespace", "switchyard")
	var k struct{ Namespace string }
	data, err := os.ReadFile(filepath.Join(manifests, "kustomization.yaml"))
	if err == nil {
		err = yaml.Unmarshal(data, &k)
	}
	if !ok || err != nil || k.Namespace != n.Metadata.Name || n.Metadata.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Errorf("%+v, %v; all is in %q", n.Metadata, err, k.Namespace)
	}
}
