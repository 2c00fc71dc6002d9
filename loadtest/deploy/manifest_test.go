package deploy

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"gopkg.in/yaml.v3"
)

// object is what is looked at of a Kubernetes object of any kind.
type object struct {
	file     string
	Kind     string
	Metadata struct {
		Name   string
		Labels map[string]string
	}
	Data map[string]string // of ConfigMaps and Secrets
	Spec struct {
		Replicas    int
		ServiceName string `yaml:"serviceName"`
		// Selector is of Deployments and the like, and with MatchLabels alone of PodDisruptionBudgets.
		Selector       selector
		MaxUnavailable int `yaml:"maxUnavailable"`
		Ports          []struct {
			Port       int
			TargetPort string `yaml:"targetPort"`
		}
		Template struct {
			Metadata struct{ Labels, Annotations map[string]string }
			Spec     podSpec
		}
		PodSelector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		} `yaml:"podSelector"`
		VolumeClaimTemplates []struct{ Metadata struct{ Name string } } `yaml:"volumeClaimTemplates"`
	}
}

// selector is of pods: a Service has the labels themselves.
type selector struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
	App         string
}

func (s selector) app() string { return s.App + s.MatchLabels["app"] }

type podSpec struct {
	TerminationGracePeriodSeconds int   `yaml:"terminationGracePeriodSeconds"`
	AutomountServiceAccountToken  *bool `yaml:"automountServiceAccountToken"`
	EnableServiceLinks            *bool `yaml:"enableServiceLinks"`
	SecurityContext               struct {
		RunAsNonRoot   bool                  `yaml:"runAsNonRoot"`
		RunAsUser      int                   `yaml:"runAsUser"`
		SeccompProfile struct{ Type string } `yaml:"seccompProfile"`
	} `yaml:"securityContext"`
	TopologySpreadConstraints []struct {
		TopologyKey   string   `yaml:"topologyKey"`
		LabelSelector selector `yaml:"labelSelector"`
	} `yaml:"topologySpreadConstraints"`
	Containers []container
	Volumes    []volume
}

type volume struct {
	Name   string
	Secret struct {
		SecretName string `yaml:"secretName"`
	}
}

type container struct {
	Name, Image string
	Args        []string
	Env         []variable
	EnvFrom     []struct {
		ConfigMapRef struct {
			Name     string
			Optional bool
		} `yaml:"configMapRef"`
	} `yaml:"envFrom"`
	Ports []struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	StartupProbe   probe `yaml:"startupProbe"`
	ReadinessProbe probe `yaml:"readinessProbe"`
	LivenessProbe  probe `yaml:"livenessProbe"`
	Lifecycle      struct {
		PreStop struct{ Sleep struct{ Seconds int } } `yaml:"preStop"`
	}
	Resources       struct{ Requests, Limits map[string]string }
	SecurityContext struct {
		ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
		AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
		Privileged               bool
		Capabilities             struct{ Add, Drop []string }
	} `yaml:"securityContext"`
	VolumeMounts []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

type variable struct {
	Name, Value string
	ValueFrom   struct {
		FieldRef struct {
			FieldPath string `yaml:"fieldPath"`
		} `yaml:"fieldRef"`
	} `yaml:"valueFrom"`
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
	TCP     struct{ Port string }       `yaml:"tcpSocket"`
}

func (p probe) port() string { return p.HTTPGet.Port + p.TCP.Port }

const manifests = "kubernetes"

// readManifests reads all that kustomization.yaml names.
func readManifests(t *testing.T) (all []object) {
	t.Helper()
	var k struct{ Resources []string }
	data, err := os.ReadFile(filepath.Join(manifests, "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, &k); err != nil {
		t.Fatal(err)
	}
	for _, name := range k.Resources {
		file, err := os.Open(filepath.Join(manifests, name))
		if err != nil {
			t.Fatal(err)
		}
		objects := decodeAll(t, file)
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			o.file = name
			all = append(all, o)
		}
	}
	return all
}

func decodeAll(t *testing.T, from io.Reader) (all []object) {
	t.Helper()
	for d := yaml.NewDecoder(from); ; {
		var one object
		err := d.Decode(&one)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
}

// pods are those objects that have pods.
func pods(all []object) (with []object) {
	for _, o := range all {
		if o.Kind == "Deployment" || o.Kind == "StatefulSet" {
			with = append(with, o)
		}
	}
	return with
}

// named finds an object.
func named(all []object, kind, name string) (object, bool) {
	for _, o := range all {
		if o.Kind == kind && o.Metadata.Name == name {
			return o, true
		}
	}
	return object{}, false
}
