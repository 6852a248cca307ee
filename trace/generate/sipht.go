package generate

import "strconv"

// sipht: for each genome part, candidate genes are found in four ways and compared with known ones. The parts share
// only inputs from outside; outputs of all but the first carry the number of their part.
func sipht(g *dag, n int, _ Parameters) {
	g.tick = 100_000 // 0.1 ms
	parts := max(1, (2*n+31)/62)
	patsers := g.split(parts, int64(n-13*parts), 0.2)
	s := &siphtFiles{dag: g, code: "NC_0025AG05", outside: map[string]int32{}}
	s.fna, s.ptt, s.blast = g.bytes(5248967.25, 2301068882937.69), g.bytes(328510.50, 76625546.75),
		g.bytes(11427.25, 21904571.69)
	for part, k := range patsers {
		s.prefix = ""
		if part > 0 {
			s.prefix = "s" + strconv.Itoa(part+1) + "_"
		}
		s.part(int(k))
	}
}

type siphtFiles struct {
	*dag
	code, prefix    string
	outside         map[string]int32
	partners        []int32
	fna, ptt, blast int64
}

// given is a file from outside; every part reads the same.
func (s *siphtFiles) given(name string, size int64) int32 {
	f, ok := s.outside[name]
	if !ok {
		f = s.file(size, "%s", name)
		s.outside[name] = f
	}
	return f
}

// made is a file of this part whose size is drawn.
func (s *siphtFiles) made(name string, mean, variance float64) int32 {
	return s.file(s.bytes(mean, variance), "%s%s", s.prefix, name)
}

// ofCode is made, its name about the genome.
func (s *siphtFiles) ofCode(before, after string, mean, variance float64) int32 {
	return s.file(s.bytes(mean, variance), "%s%s%s%s", s.prefix, before, s.code, after)
}

// readsPartners gives a task the files of some 890 related genomes.
func (s *siphtFiles) readsPartners(task int32) {
	if len(s.partners) == 0 {
		s.partners = append(make([]int32, 0, 937), s.file(s.bytes(288565.20, 107942475771.75),
			"%s_IGR_partners.txt", s.code))
	}
	count := int(842.4 + s.Float64()*(936-842.4))
	for i := len(s.partners) - 1; i < count; i++ {
		s.partners = append(s.partners, s.file(s.bytes(288565.20, 107942475771.75), "NC_%d_IGR_partners.txt", i))
	}
	s.reads(task, s.partners[:count+1]...)
}

func (s *siphtFiles) part(patsers int) {
	fna := s.given(s.code+".fna", s.fna)
	ptt := s.given(s.code+".ptt", s.ptt)
	matrix := s.given("ID_matrix.txt", 170917)
	blasta, xdformat, timer := s.given("blasta", 786856), s.given("xdformat", 380164), s.given("time", 11944)
	patserIn, alphabet := s.given("patser.in", 14), s.given("alphabet", 16)

	concat := s.task("Patser_concate", s.normal(0.08, 0.01))
	sum := int64(0)
	for range patsers {
		t := s.task("Patser", s.normal(1.27, 0.11))
		s.reads(t, patserIn, fna, alphabet, matrix)
		size := s.bytes(91780.15, 61994599624.9)
		sum += size
		s.link(t, concat, s.file(size, "%s_PatserOutID%05d.txt", s.code, t))
	}
	concatenated := s.file(sum, "%s%s_PatserOut.txt", s.prefix, s.code)

	findterm := s.task("Findterm", s.normal(1349.47, 635206.26))
	s.reads(findterm, fna, s.given("RNAfold", 591942))
	motif := s.task("RNAMotif", s.normal(36.42, 78.15))
	s.reads(motif, fna, s.given("RNAMofficial_descriptor.txt", 17626))
	transterm := s.task("Transterm", s.normal(55.78, 2356.11))
	s.reads(transterm, fna, s.given("expterm.dat", 45788), ptt)
	blast := s.task("Blast", s.normal(2350.58, 1033834.66))
	s.reads(blast, blasta, xdformat, timer)
	s.readsPartners(blast)
	srna := s.task("SRNA", s.normal(361.33, 117451.46))
	s.reads(srna, s.given("access_genomes2.txt", 83722), s.given("sRNAPredict.in", 1198))
	if _, ok := s.outside[s.code+".gbk"]; !ok {
		s.given(s.code+".gbk", s.bytes(11664926.25, 5027367745576.69))
		s.given(s.code+".ffn", s.bytes(4202875, 168713989549.5))
	}
	s.reads(srna, s.outside[s.code+".gbk"], fna, ptt, s.given("All_known_sRNAs.txt", 1028403))
	s.link(findterm, srna, s.made("findterm.out", 134, 0), s.made("findterm.err", 0, 0), s.ofCode("", "_term.txt",
		16463275, 95617942503538.19),
		s.ofCode("", "_term_candidates_non_redund", 385620, 15568279781.19), s.made("rna.ps", 2837.50, 512.25),
		s.made("vienna_input_tmp", 3974004, 849579407883), s.made("vienna_output", 7729972.50, 23454353107374.75),
		s.made("vienna_index_tmp", 5827902, 1670001877413.50))
	s.link(motif, srna, s.made("rnamotif.out", 1053510.50, 8411320934.75), s.made("rnamotif.err", 310, 0))
	s.link(transterm, srna, s.made("transterm.out", 440409.25, 211951229.69), s.made("transterm.err", 96.25, 0.19))
	s.link(blast, srna, s.made("blast.out", 511.75, 0.19), s.made("BLAST_sorted.out", 5270722.25, 11857591385947.69))
	s.writes(blast, s.made("blast.err", 548.75, 0.19))
	found := s.ofCode("Seq_", "", 84073, 12298824)
	said := s.made("srna.out", 331823.5, 482134362.75)
	s.writes(srna, found, said, s.made("srna.err", 1859, 36), s.made("Blast_Out", 2491818.25, 2780189305579.69),
		s.made("OutBlastParsed", 1002636.75, 995765999448.69), s.made("OutCandidates", 222136.25, 9508831415.85),
		s.made("OutCandidates2", 222136.25, 9508831415.85), s.made("OutCandidates3", 222136.25, 9508831415.85),
		s.made("OutConsIG", 422672.75, 60310327140.69), s.made("OutIG", 605995, 103944177), s.made("OutORF", 328412.5,
			559717064.75), s.made("OutTerm_temp", 115600.75, 1330343466.19), s.made("OutTerms", 53733.5, 184633890.75),
		s.made("OutTermsIG", 18803.75, 23633877.69))

	parse := s.task("FFN_Parse", s.normal(1.64, 0.06))
	s.reads(parse, s.outside[s.code+".ffn"], ptt)
	candidate := s.task("Blast_candidate", s.normal(5.18, 0.99))
	s.reads(candidate, s.given("Seq_known_sRNAs_IGRs.txt", 172432), blasta, xdformat, timer)
	qrna := s.task("Blast_QRNA", s.normal(1412.09, 9702.26))
	s.reads(qrna, xdformat, blasta, timer, s.given("mix_tied_linux.cfg", 11964), s.given("RIBOPROB.mat", 8350),
		s.given("BLOSUM62", 2122),
		s.given("blastn2qrnadepth.pl", 69426), s.given("qrna2gff.pl", 16995), s.given("eqrna", 953556))
	s.readsPartners(qrna)
	synteny := s.task("Blast_synteny", 33)
	s.reads(synteny, s.given("Flanking_ORFs_known.txt", 1419426), xdformat, blasta, timer)
	paralogues := s.task("Blast_paralogues", s.normal(4.99, 1.32))
	s.reads(paralogues, xdformat, blasta, timer)
	annotate := s.task("SRNA_annotate", s.normal(1.68, 0.92))
	s.reads(annotate, s.given("access_matrix.txt", 170917), s.outside["sRNAPredict.in"])
	for _, t := range [...]int32{parse, candidate, qrna, synteny, paralogues} {
		s.link(srna, t, found)
	}
	s.link(srna, annotate, found, said)
	s.link(parse, synteny, s.ofCode("", "_parsed.ffn", 802506.75, 18062265579.69))
	s.link(concat, annotate, concatenated)
	s.link(candidate, annotate, s.file(s.blast, "%sBLAST_%s", s.prefix, s.code), s.made("blast_candidate.out", 2965.5,
		24644.25), s.made("blast_candidate.err", 544.75, 0.19))
	s.link(qrna, annotate, s.ofCode("", "_QRNA.txt.all.CUTOFF0.ID[100:0].GC[100:0].gff", 175489.75, 90766297.69))
	s.writes(qrna, s.made("qrna.err", 610, 0), s.made("qrna.out", 4809.62, 9530118.98), s.ofCode("", "_QRNA.txt",
		773386.5, 201840720.75),
		s.ofCode("", "_QRNAblast.txt", 3115449.75, 433512921497.19), s.ofCode("", "_QRNAblast.txt.E0.01.D1.q", 163635,
			103267109.5),
		s.ofCode("", "_QRNAblast.txt.E0.01.D1.q.gff", 38934, 47855409.5), s.ofCode("", "_QRNAblast.txt.E0.01.D1.q.rep",
			39147.75, 62250756.19))
	s.link(synteny, annotate, s.ofCode("", "_synteny.txt", 1146801.25, 445588527066.69))
	s.link(paralogues, annotate, s.ofCode("", "_paralogues.txt", 690731.5, 362706549090.75))
	s.writes(annotate, s.ofCode("", "_paralogues_temp.txt", 90154.75, 6814689167.19), s.made("synteny_temp.txt", 20552,
		133473984.5),
		s.made("synteny_temp2.txt", 2706.5, 2262206.25), s.ofCode("Block0_Parsed_temp_", "_PatserOut.txt", 567813.75,
			880488134611.69),
		s.made("QRNA_out", 6572.75, 12596574.19), s.made("srna_annotate.err", 1070.5, 0.75), s.made("srna_annotate.out",
			565462, 98726501739.5))
}
