package order

// heap has numbered things, the least of them in front, and knows where each is, as their keys change while they are in it.
type heap struct {
	at  []int32 // things
	pos []int32 // by thing: its place in at; -1 if it is not there
}

// grow makes room for things up to n.
func (h *heap) grow(n int) {
	for len(h.pos) < n {
		h.pos = append(h.pos, -1)
	}
}

// add takes a thing in, at the end, if it is not there.
func (h *heap) add(x int32) {
	if h.pos[x] < 0 {
		h.pos[x] = int32(len(h.at))
		h.at = append(h.at, x)
	}
}

// fix moves a thing to where its key belongs.
func (h *heap) fix(x int32, less func(x, y int32) bool) {
	i := int(h.pos[x])
	for i > 0 && less(x, h.at[(i-1)/2]) {
		h.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	for {
		k := 2*i + 1
		if k+1 < len(h.at) && less(h.at[k+1], h.at[k]) {
			k++
		}
		if k >= len(h.at) || !less(h.at[k], x) {
			return
		}
		h.swap(i, k)
		i = k
	}
}

// remove takes a thing out and returns the one that has its place now, which wants a fix; -1 if there is none.
func (h *heap) remove(x int32) int32 {
	i := h.pos[x]
	if i < 0 {
		return -1
	}
	last := int32(len(h.at) - 1)
	h.swap(int(i), int(last))
	h.at = h.at[:last]
	h.pos[x] = -1
	if i == last {
		return -1
	}
	return h.at[i]
}

func (h *heap) swap(i, j int) {
	h.at[i], h.at[j] = h.at[j], h.at[i]
	h.pos[h.at[i]], h.pos[h.at[j]] = int32(i), int32(j)
}
