package deploy

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	services "github.com/switchyard/switchyard/services/switchyard/cluster"
)

// Gateways are several, behind a Service; one that goes is out of traffic before it drains, and has
// the time for both.
func TestGateway(t *testing.T) {
	all := readManifests(t)
	o, _ := named(all, "Deployment", "switchyard-gateway")
	s, ok := named(all, "Service", "switchyard-gateway")
	p := o.Spec.Template.Spec
	if !ok || o.Spec.Replicas < 2 || len(p.Containers) != 1 {
		t.Fatalf("%+v behind %+v", o.Spec, s.Spec)
	}
	c := p.Containers[0]
	if !hasPort(c, s.Spec.Ports[0].TargetPort) {
		t.Errorf("the Service sends to port %q of %+v", s.Spec.Ports[0].TargetPort, c.Ports)
	}
	sleeps, drains := c.Lifecycle.PreStop.Sleep.Seconds, int(services.DrainTime.Seconds())
	if sleeps < 1 || sleeps+drains > p.TerminationGracePeriodSeconds {
		t.Errorf("it sleeps %d s and drains for %d, and is killed after %d", sleeps, drains, p.TerminationGracePeriodSeconds)
	}
	env := environmentOf(t, all, c)
	if secret, file := mountedAt(p, env["SWITCHYARD_HTTP_KEYS"]); secret != "gateway-keys" || file != "keys" {
		t.Errorf("keys are in %s of the Secret %q", file, secret)
	}
}

// mountedAt is the Secret, and the file of it, that a path in a pod's first container is.
func mountedAt(p podSpec, path string) (secret, file string) {
	for _, m := range p.Containers[0].VolumeMounts {
		if rest, in := strings.CutPrefix(path, m.MountPath+"/"); in {
			return secretOf(p, m.Name), rest
		}
	}
	return "", ""
}

// The component has the gateway speak TLS alone.
func TestGatewayTLS(t *testing.T) {
	all := renderedWith(t, "# components: [model-volume]", "components: [gateway-tls]")
	o, _ := named(all, "Deployment", "switchyard-gateway")
	s, _ := named(all, "Service", "switchyard-gateway")
	env := environmentOf(t, all, o.Spec.Template.Spec.Containers[0])
	_, insecure := env["SWITCHYARD_INSECURE"]
	for name, file := range map[string]string{"SWITCHYARD_HTTP_CERT": "tls.crt", "SWITCHYARD_HTTP_KEY": "tls.key"} {
		if secret, in := mountedAt(o.Spec.Template.Spec, env[name]); secret != "gateway-tls" || in != file {
			t.Errorf("%s is %s of the Secret %q", name, in, secret)
		}
	}
	if insecure || s.Spec.Ports[0].Port != 443 {
		t.Errorf("insecure: %v; the Service has port %d", insecure, s.Spec.Ports[0].Port)
	}
}

// gatewayKey is a key of the test's, which the documented command would put into the Secret.
const gatewayKey = "a key of a client"

func gatewayKeys() map[string][]byte {
	sum := sha256.Sum256([]byte(gatewayKey))
	return map[string][]byte{"keys": []byte(hex.EncodeToString(sum[:]) + " default normal\n")}
}

// wantsHTTPAnswer asks a gateway with a key, or without, and wants a text in its answer.
func wantsHTTPAnswer(t *testing.T, at, key, want string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+at+"/v1/completions", strings.NewReader(`{"model":"demo","prompt":"Once upon a time","max_tokens":8}`))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil || !strings.Contains(string(body), want) {
		t.Errorf("with %q: %v, %s", key, err, body)
	}
}

// The documented command names the keys' Secret as the pod does.
func TestGatewayKeysAreDocumented(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(manifests, "kustomization.yaml"))
	if err != nil || !slices.Contains(strings.Fields(string(data)), "gateway-keys") {
		t.Errorf("kustomization.yaml does not say how the Secret gateway-keys is made (%v)", err)
	}
}
