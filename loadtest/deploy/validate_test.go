package deploy

import (
	"bytes"
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// kubernetes-validate checks the files against Kubernetes' own schemas: pip install
// kubernetes-validate, for the python that SWITCHYARD_PYTHON names.
func TestSchemas(t *testing.T) {
	python := cmp.Or(os.Getenv("SWITCHYARD_PYTHON"), "python3")
	if out, err := exec.CommandContext(t.Context(), python, "-m", "kubernetes_validate", "--version").CombinedOutput(); err != nil {
		t.Skipf("%s has no kubernetes-validate; install it with pip install kubernetes-validate: %v: %s", python, err, out)
	}
	files := []string{}
	for _, o := range readManifests(t) {
		if file := filepath.Join(manifests, o.file); len(files) == 0 || files[len(files)-1] != file {
			files = append(files, file)
		}
	}
	if rendered := render(t, manifests); rendered != "" {
		files = append(files, rendered)
	}
	args := append([]string{"-m", "kubernetes_validate", "--strict", "--no-warn"}, files...)
	if out, err := exec.CommandContext(t.Context(), python, args...).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// render is the file of what kubectl makes of a folder; "" where there is no kubectl.
func render(t *testing.T, dir string) string {
	t.Helper()
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		return ""
	}
	var out, wrong bytes.Buffer
	c := exec.CommandContext(t.Context(), kubectl, "kustomize", dir)
	c.Stdout, c.Stderr = &out, &wrong
	if err := c.Run(); err != nil {
		t.Fatalf("kubectl kustomize %s: %v: %s", dir, err, wrong.String())
	}
	file := filepath.Join(t.TempDir(), "rendered.yaml")
	if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// renderedWith is what the manifests are rendered to with other texts in their kustomization, given in
// pairs of old and new. Without kubectl the test is skipped.
func renderedWith(t *testing.T, texts ...string) []object {
	t.Helper()
	dir := filepath.Join(t.TempDir(), manifests)
	if err := os.CopyFS(dir, os.DirFS(manifests)); err != nil {
		t.Fatal(err)
	}
	k := filepath.Join(dir, "kustomization.yaml")
	data, err := os.ReadFile(k)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(k, []byte(strings.NewReplacer(texts...).Replace(string(data))), 0o600); err != nil {
		t.Fatal(err)
	}
	rendered := render(t, dir)
	if rendered == "" {
		t.Skip("there is no kubectl")
	}
	file, err := os.Open(rendered)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // it was read only
	return decodeAll(t, file)
}

// kubectl renders the folder, with the image that is asked for and, where that is wanted, a
// volume of models in each pod that runs Switchyard.
func TestRendered(t *testing.T) {
	all := renderedWith(t, "# components: ", "components: ", "newName: switchyard", "newName: registry.example.org/switchyard")
	with := 0
	for _, o := range pods(all) {
		c := o.Spec.Template.Spec.Containers[0]
		if o.Kind == "StatefulSet" {
			continue
		}
		if c.Image != "registry.example.org/switchyard:latest" {
			t.Errorf("%s has image %s", o.Metadata.Name, c.Image)
		}
		if hasVolume(o, o.Spec.Template.Spec, "models") && c.VolumeMounts[len(c.VolumeMounts)-1].MountPath == "/models" {
			with++
		}
	}
	if deployments := len(pods(readManifests(t))) - 2; with != deployments {
		t.Errorf("%d of %d have models", with, deployments)
	}
}
