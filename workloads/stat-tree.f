# Looking at files, as in the study of virtualised NAS (WIOV '11, §3.1, table 2, figure 5): for two minutes, stat of random files
# among 100 000 empty ones, in a tree of $dirwidth entries in each directory (20, or 1 000 000 for one directory).

set $dir=/tmp
set $nfiles=100000
set $dirwidth=20
set $nthreads=1
set $runtime=120
set $which=cvar(type=cvar-uniform,parameters=lower:0;upper:4294967295)

define fileset name=tree,path=$dir,entries=$nfiles,size=0,dirwidth=$dirwidth,dirgamma=0,prealloc=100,paralloc

define process name=looker
{
  thread name=looker,instances=$nthreads
  {
    flowop statfile name=stat,filesetname=tree,indexed=$which
  }
}

run $runtime
