package fleet

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
)

func TestMetrics(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			_, _ = w.Write([]byte(`# HELP go_goroutines Number of goroutines
go_goroutines 41
switchyard_kv_pages{model="demo",state="free"} 1.5e+06
switchyard_kv_pages{model="demo",state="used"} 7
`))
		}
	}))
	defer s.Close()
	got, err := Metrics(t.Context(), strings.TrimPrefix(s.URL, "http://"))
	want := map[string]float64{
		"go_goroutines": 41, `switchyard_kv_pages{model="demo",state="free"}`: 1.5e6, `switchyard_kv_pages{model="demo",state="used"}`: 7,
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}
