package generate_test

import (
	"testing"

	"gantry/trace/generate"
)

// paperTotals is the distribution of Ilyushkin and Epema, CCGrid 2018, section IV-A: mean 1 h, coefficient of variation
// 0.55.
func paperTotals() *generate.Distribution {
	return generate.HyperGamma(generate.Gamma{Weight: 0.7, Shape: 5, Scale: 501.266},
		generate.Gamma{Weight: 0.3, Shape: 45, Scale: 136.709})
}

// paperSizes are the sizes of the loads of Ilyushkin and Epema, CCGrid 2018: mean 69.3 tasks.
func paperSizes() []generate.SizeClass {
	return []generate.SizeClass{{0.75, 30, 38, true}, {0.20, 40, 198, true}, {0.05, 200, 600, true}}
}

// workloadI is the mix of their workload I: equal parts of Montage, LIGO Inspiral and SIPHT. Its totals are
// paperTotals.
func workloadI() generate.Mix {
	return generate.Mix{Sizes: paperSizes(), Sources: []generate.Source{
		{Fraction: 1, Kind: "montage"}, {Fraction: 1, Kind: "inspiral"}, {Fraction: 1, Kind: "sipht"}}}
}

// workloadII is the mix of their workload II: random workflows. Its totals are as generated, scaled to a mean of 1 h.
func workloadII(tb testing.TB) generate.Mix {
	kind, err := generate.Find("random")
	must(tb, err)
	c := kind.Choices()
	for key, values := range map[string][]string{"jump": {"1", "2", "3"}, "regular": {"0.2", "0.8"},
		"fat": {"0.2", "0.8"}, "density": {"0.1"}} {
		must(tb, c.Set(key, values...))
	}
	return generate.Mix{Sizes: paperSizes(), Sources: []generate.Source{{Fraction: 1, Kind: "random", Choices: c}}}
}
