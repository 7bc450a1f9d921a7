__attribute__((visibility("default"))) int strata_sample_absent();
int strata_sample_absent() { return 1; }
