package predict

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// LeakyReLU is the activation of the multilayer perceptron: x where it is not negative, else alpha x (Ru, Yang, Grundy,
// Keung and Li, 3DSF, equation 4, which leaves alpha open).
func LeakyReLU(x, alpha float64) float64 {
	if x < 0 {
		return alpha * x
	}
	return x
}

const (
	leak   = 0.1
	hidden = 16 // units of each of the two hidden layers
	batch  = 16
	// Training makes epochs passes over the samples, but at least minSteps and at most maxSteps steps.
	epochs, minSteps, maxSteps = 200, 400, 2000
	learningRate, decay        = 0.01, 1e-4
)

// MLP is a multilayer perceptron with two hidden layers of leaky rectified linear units. Training is a function of the
// samples, their order and the seed.
type MLP struct {
	*Scaler
	Centre, Spread float64   // of the target
	Parameters     []float64 // of the layers, one after the other: weights by unit, then biases
}

// layer is a view of parameters: out units with in weights each, and their biases.
type layer struct {
	weights *mat.Dense // out x in
	biases  []float64
}

// layers cuts parameters, or gradients, into the three layers.
func layers(p []float64, in int) (l [3]layer) {
	for i, shape := range [3][2]int{{in, hidden}, {hidden, hidden}, {hidden, 1}} {
		n := shape[0] * shape[1]
		l[i] = layer{mat.NewDense(shape[1], shape[0], p[:n]), p[n : n+shape[1]]}
		p = p[n+shape[1]:]
	}
	return l
}

func parameterCount(in int) int { return (in+1)*hidden + (hidden+1)*hidden + hidden + 1 }

// FitMLP trains on the rows x of features by Adam on mini-batches, with a learning rate that falls to 0 as a cosine
// does.
func FitMLP(x [][]float64, y []float64, seed uint64) *MLP {
	n, d := len(x), len(x[0])
	m := &MLP{Scaler: newScaler(x), Parameters: make([]float64, parameterCount(d))}
	m.Centre, m.Spread = stat.PopMeanStdDev(y, nil)
	if m.Spread == 0 {
		m.Spread = 1
	}
	r := rand.New(rand.NewPCG(seed, 105))
	net := layers(m.Parameters, d)
	for _, l := range net { // He et al. 2015
		out, in := l.weights.Dims()
		for i := range out {
			for j := range in {
				l.weights.Set(i, j, r.NormFloat64()*math.Sqrt(2/float64(in)))
			}
		}
	}
	rows, target := mat.NewDense(n, d, nil), make([]float64, n)
	for i := range x {
		m.apply(rows.RawRowView(i), x[i])
		target[i] = (y[i] - m.Centre) / m.Spread
	}
	steps := min(max(minSteps, epochs*(n+batch-1)/batch), maxSteps)
	t := newTrainer(net, d)
	order := r.Perm(n)
	next := 0
	for step := range steps {
		size := min(batch, n)
		for k := range size {
			if next == n {
				r.Shuffle(n, func(i, j int) { order[i], order[j] = order[j], order[i] })
				next = 0
			}
			t.take(k, rows.RawRowView(order[next]), target[order[next]])
			next++
		}
		t.step(m.Parameters, size, step+1, learningRate*(1+math.Cos(math.Pi*float64(step)/float64(steps)))/2)
	}
	return m
}

// Predict runs the network forward.
func (m *MLP) Predict(x []float64) float64 {
	var memory [3][hidden]float64
	in, p := len(m.Mean), m.Parameters
	z := memory[2][:0]
	if in > hidden {
		z = make([]float64, in)
	}
	z = z[:in]
	m.apply(z, x)
	for i, out := range [3]int{hidden, hidden, 1} {
		units := memory[i%2][:out]
		biases := p[out*in : out*in+out]
		for u := range units {
			units[u] = floats.Dot(p[u*in:(u+1)*in], z) + biases[u]
			if out > 1 {
				units[u] = LeakyReLU(units[u], leak)
			}
		}
		p, in, z = p[(in+1)*out:], out, units
	}
	return m.Centre + m.Spread*z[0]
}

// trainer has the memory of training: the values of the units for a mini-batch, gradients, and the moments of Adam
// (Kingma and Ba 2015).
type trainer struct {
	net, grad     [3]layer
	gradients     []float64
	first, second []float64
	in, target    *mat.Dense
	sums, values  [3]*mat.Dense
	errors        [3]*mat.Dense
}

func newTrainer(net [3]layer, in int) *trainer {
	n := parameterCount(in)
	t := &trainer{net: net, gradients: make([]float64, n), first: make([]float64, n), second: make([]float64, n),
		in: mat.NewDense(batch, in, nil), target: mat.NewDense(batch, 1, nil)}
	t.grad = layers(t.gradients, in)
	for i, width := range [3]int{hidden, hidden, 1} {
		t.sums[i], t.values[i], t.errors[i] = mat.NewDense(batch, width, nil), mat.NewDense(batch, width, nil),
			mat.NewDense(batch, width, nil)
	}
	return t
}

func (t *trainer) take(k int, x []float64, y float64) {
	copy(t.in.RawRowView(k), x)
	t.target.Set(k, 0, y)
}

// step does one step of Adam on the first size rows.
func (t *trainer) step(parameters []float64, size, number int, rate float64) {
	below := t.in
	for i, l := range t.net {
		t.sums[i].Mul(below, l.weights.T())
		width := len(l.biases)
		for k := range batch {
			sums, values := t.sums[i].RawRowView(k), t.values[i].RawRowView(k)
			for u := range width {
				sums[u] += l.biases[u]
				values[u] = sums[u]
				if i < 2 {
					values[u] = LeakyReLU(sums[u], leak)
				}
			}
		}
		below = t.values[i]
	}
	t.errors[2].Zero()
	for k := range size {
		t.errors[2].Set(k, 0, 2*(t.values[2].At(k, 0)-t.target.At(k, 0))/float64(size))
	}
	for i := 2; i >= 0; i-- {
		below := t.in
		if i > 0 {
			below = t.values[i-1]
		}
		t.grad[i].weights.Mul(t.errors[i].T(), below)
		clear(t.grad[i].biases)
		for k := range size {
			floats.Add(t.grad[i].biases, t.errors[i].RawRowView(k))
		}
		if i == 0 {
			break
		}
		t.errors[i-1].Mul(t.errors[i], t.net[i].weights)
		for k := range size {
			errors, sums := t.errors[i-1].RawRowView(k), t.sums[i-1].RawRowView(k)
			for u := range errors {
				if sums[u] < 0 {
					errors[u] *= leak
				}
			}
		}
	}
	const beta1, beta2, epsilon = 0.9, 0.999, 1e-8
	c1, c2 := 1-math.Pow(beta1, float64(number)), 1-math.Pow(beta2, float64(number))
	for i, g := range t.gradients {
		g += decay * parameters[i]
		t.first[i] = beta1*t.first[i] + (1-beta1)*g
		t.second[i] = beta2*t.second[i] + (1-beta2)*g*g
		parameters[i] -= rate * (t.first[i] / c1) / (math.Sqrt(t.second[i]/c2) + epsilon)
	}
}
