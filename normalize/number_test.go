package normalize

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

// The short way gives the very double that the long one does, or none.
func TestShortDouble(t *testing.T) {
	taken := 0
	check := func(text string) {
		t.Helper()
		f, ok := shortDouble([]byte(text))
		if !ok {
			return
		}
		taken++
		want, err := strconv.ParseFloat(text, 64)
		if err != nil || math.Float64bits(f) != math.Float64bits(want) {
			t.Fatalf("%s: %v, want %v (%v)", text, f, want, err)
		}
	}
	for _, text := range []string{"0.1", "-0.1", "0.30000000000000", "999999999999999", "9999999999999.99", "-999999999999.999", "0.000000000000001", "1.0", "-1.50",
		"123456789012345.6", "0.0", "-0.0", "1e5", "1.5e3", "12345678901234567"} {
		check(text)
	}
	r := rand.New(rand.NewPCG(1, 5))
	for range 20_000 {
		digits := strconv.FormatUint(r.Uint64()>>r.IntN(60), 10)
		at := r.IntN(len(digits))
		text := digits[:at] + "." + digits[at:]
		if at == 0 {
			text = "0" + text
		}
		check([]string{"", "-"}[r.IntN(2)] + text)
	}
	if taken < 10_000 {
		t.Errorf("%d numbers took the short way", taken)
	}
	for _, text := range []string{"0.0", "-0.0", "1e5", "12", "1234567890123456.7", "-"} {
		if f, ok := shortDouble([]byte(text)); ok {
			t.Errorf("%s: %v by the short way", text, f)
		}
	}
}
