package intake

import "testing"

func TestDeaths(t *testing.T) {
	for record, want := range map[string]int{
		"": 0, "1 a": 1, "2 a": 2, "3 a": 3, "1 own": 0, "3 own": 2,
		"4 a": 0, "0 a": 0, "-1 a": 0, "1": 0, "x a": 0, "1 a b": 0, "1 a.b": 0,
	} {
		if got := parseAttempt([]byte(record)).deaths("own"); got != want {
			t.Errorf("%q: %d deaths, want %d", record, got, want)
		}
	}
}

func FuzzParseAttempt(f *testing.F) {
	f.Add([]byte("1 tokenizer-abc"))
	f.Fuzz(func(t *testing.T, record []byte) {
		a := parseAttempt(record)
		if a == (attempt{}) {
			return
		}
		if again := parseAttempt([]byte(a.String())); again != a || a.number > maxDeaths+1 {
			t.Errorf("%q became %v, and that %v", record, a, again)
		}
	})
}
